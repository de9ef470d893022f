import { Button } from '@mantine/core';
import type { ReactNode } from 'react';
import { counted } from '../../format/numbers.ts';
import { Confirm, useAsked } from '../../ui/frame/confirm.tsx';
import type { ActionKind } from './actions.tsx';
import { actionNames, actionNotes, PriorityDialog, useJobsAction } from './actions.tsx';

interface SelectionBarProps {
  readonly ids: readonly string[];
  readonly onDone?: () => void;
  /** Actions to offer; default: all. */
  readonly kinds?: readonly ActionKind[];
  readonly priority?: number;
}

const all = Object.keys(actionNames) as readonly ActionKind[];

/** Buttons for actions on the given jobs. */
export function SelectionBar({ ids, onDone, kinds = all, priority }: SelectionBarProps): ReactNode {
  const { run, busy } = useJobsAction(onDone);
  const { asked, ask, close } = useAsked<ActionKind>();
  const act = (kind: ActionKind): void => {
    if (kind === 'retry' || kind === 'run_now') run({ ids, action: { kind } });
    else ask(kind);
  };
  return (
    <>
      {kinds.map((kind) => (
        <Button
          key={kind}
          size="compact-xs"
          variant={kind === 'delete' ? 'light' : 'default'}
          {...(kind === 'delete' && { color: 'red' })}
          disabled={busy}
          onClick={() => act(kind)}
        >
          {actionNames[kind]}
        </Button>
      ))}
      <Confirm
        opened={asked === 'cancel' || asked === 'delete'}
        onClose={close}
        onConfirm={() => {
          if (asked === 'cancel' || asked === 'delete') run({ ids, action: { kind: asked } });
        }}
        title={`${actionNames[asked ?? 'cancel']} ${counted(ids.length, 'job')}?`}
        verb={`${actionNames[asked ?? 'cancel']} ${counted(ids.length, 'job')}`}
      >
        {actionNotes[asked ?? 'cancel']}
      </Confirm>
      <PriorityDialog
        opened={asked === 'reprioritise'}
        onClose={close}
        onChoose={(chosen) => run({ ids, action: { kind: 'reprioritise', priority: chosen } })}
        {...(priority !== undefined && { initial: priority })}
      />
    </>
  );
}
