import { ActionIcon, CopyButton, Tooltip } from '@mantine/core';
import type { ReactNode } from 'react';
import { IconCheck, IconCopy } from './icons.ts';

/** A button that copies an id. */
export function CopyId({ id }: { readonly id: string }): ReactNode {
  return (
    <CopyButton value={id}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? 'Copied' : 'Copy the id'}>
          <ActionIcon variant="subtle" color="gray" size="sm" onClick={copy} aria-label="Copy the id">
            {copied ? <IconCheck size={14} aria-hidden /> : <IconCopy size={14} aria-hidden />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}
