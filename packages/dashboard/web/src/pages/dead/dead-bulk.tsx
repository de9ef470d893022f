import { Button } from '@mantine/core';
import type { ReactNode } from 'react';
import type { DeadFilter } from '../../../../src/contract.ts';
import { BulkDialog } from '../../bulk/bulk-dialog.tsx';
import { useAsked } from '../../ui/frame/confirm.tsx';

/** Bulk action to confirm, on all dead jobs that a filter finds. */
export interface DeadAsk {
  readonly kind: 'redrive' | 'delete';
  readonly filter: DeadFilter;
}

interface DeadBulkProps {
  readonly filter: DeadFilter;
  /** Name of the selection, such as `this group`. */
  readonly what: string;
}

/** Buttons that redrive or purge all dead jobs that a filter finds. */
export function DeadBulk({ filter, what }: DeadBulkProps): ReactNode {
  const { asked, ask, close } = useAsked<DeadAsk>();
  return (
    <>
      <Button size="xs" onClick={() => ask({ kind: 'redrive', filter })}>{`Redrive ${what}…`}</Button>
      <Button size="xs" variant="light" color="red" onClick={() => ask({ kind: 'delete', filter })}>
        Purge…
      </Button>
      <DeadDialog asked={asked} what={what} onClose={close} />
    </>
  );
}

/**
 * The same buttons for a table row. The dialog is rendered elsewhere, since the row disappears with its jobs
 * while the dialog still shows the result.
 */
export function DeadButtons({
  filter,
  onAsk,
}: {
  readonly filter: DeadFilter;
  readonly onAsk: (ask: DeadAsk) => void;
}): ReactNode {
  return (
    <>
      <Button size="compact-xs" variant="default" onClick={() => onAsk({ kind: 'redrive', filter })}>
        Redrive…
      </Button>
      <Button
        size="compact-xs"
        variant="subtle"
        color="red"
        onClick={() => onAsk({ kind: 'delete', filter })}
      >
        Purge…
      </Button>
    </>
  );
}

export function DeadDialog({
  asked,
  what,
  onClose,
}: {
  readonly asked: DeadAsk | undefined;
  readonly what: string;
  readonly onClose: () => void;
}): ReactNode {
  const purges = asked?.kind === 'delete';
  return (
    <BulkDialog
      request={asked && { over: 'dead', filter: asked.filter, action: { kind: asked.kind } }}
      onClose={onClose}
      title={purges ? `Purge ${what}` : `Redrive ${what}`}
      verb={purges ? 'Purge' : 'Redrive'}
      note={
        purges
          ? 'These dead jobs are removed without a trace.'
          : 'These dead jobs go back into their queues with fresh limits, the oldest first.'
      }
    />
  );
}
