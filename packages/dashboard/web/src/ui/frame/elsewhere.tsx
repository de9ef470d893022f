import { Anchor } from '@mantine/core';
import type { ReactNode } from 'react';
import { installation, overallHref } from '../../api/mount.ts';

/** Says where else a job or a flow may be, if there are other installations. */
export function Elsewhere({ id }: { readonly id: string }): ReactNode {
  if (installation === undefined) return null;
  return (
    <>
      {' '}
      It may be in another installation:{' '}
      <Anchor href={`${overallHref}jobs/${encodeURIComponent(id)}`} underline="always">
        look in all of them
      </Anchor>
      .
    </>
  );
}
