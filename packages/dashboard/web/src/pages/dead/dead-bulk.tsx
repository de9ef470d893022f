import { Button } from '@mantine/core';
import type { ReactNode } from 'react';
import type { DeadFilter } from '../../../../src/contract.ts';
import { BulkDialog } from '../../bulk/bulk-dialog.tsx';
import { useAsked } from '../../ui/frame/confirm.tsx';

/** What is to be done to all dead jobs that a filter finds. */
export interface DeadAsk {
  readonly kind: 'redrive' | 'delete';
  readonly filter: DeadFilter;
}

interface DeadBulkProps {
  readonly filter: DeadFilter;
  /** In words, such as `this group`. */
  readonly what: string;
}

/** Redrives, or purges, all dead jobs that a filter finds. */
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

/** The same buttons in a row. Their dialog stands elsewhere: the row goes when its jobs do, while the dialog says how many those were. */
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
          : 'These dead jobs go back into their queues with fresh limits, those that died first first.'
      }
    />
  );
}
