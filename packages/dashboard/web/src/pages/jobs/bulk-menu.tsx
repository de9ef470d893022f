import { Button, Menu } from '@mantine/core';
import { IconChevronDown } from '../../ui/icons.ts';
import type { ReactNode } from 'react';
import { useState } from 'react';
import type { BulkRequest, JobAction, JobFilter } from '../../../../src/contract.ts';
import { BulkDialog } from '../../bulk/bulk-dialog.tsx';
import { useAsked } from '../../ui/frame/confirm.tsx';
import { actionKinds, actionName, actionNotes, PriorityDialog } from './actions.tsx';

/** Menu of actions on all jobs that the filter finds, on all pages. */
export function BulkMenu({ filter }: { readonly filter: JobFilter }): ReactNode {
  const { asked, ask, close } = useAsked<JobAction>();
  const [choosing, setChoosing] = useState(false);
  const request: BulkRequest | undefined = asked && { over: 'jobs', filter, action: asked };
  const name = actionName(asked?.kind ?? 'retry', filter.status);
  return (
    <>
      <Menu position="bottom-end" width={200}>
        <Menu.Target>
          <Button variant="default" rightSection={<IconChevronDown size={14} aria-hidden />}>
            All that fit
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {actionKinds.map((kind) => (
            <Menu.Item
              key={kind}
              {...(kind === 'delete' && { color: 'red' })}
              onClick={() => (kind === 'reprioritise' ? setChoosing(true) : ask({ kind }))}
            >
              {actionName(kind, filter.status)} all that fit…
            </Menu.Item>
          ))}
        </Menu.Dropdown>
      </Menu>
      <PriorityDialog
        opened={choosing}
        onClose={() => setChoosing(false)}
        onChoose={(priority) => ask({ kind: 'reprioritise', priority })}
      />
      <BulkDialog
        request={request}
        onClose={close}
        title={`${name} all jobs that fit the filter`}
        verb={name}
        note={actionNotes[asked?.kind ?? 'retry']}
      />
    </>
  );
}
