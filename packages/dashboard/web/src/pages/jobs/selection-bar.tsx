import { Button } from '@mantine/core';
import type { ReactNode } from 'react';
import type { JobStatus } from '../../../../src/contract.ts';
import { counted } from '../../format/numbers.ts';
import { Confirm, useAsked } from '../../ui/frame/confirm.tsx';
import type { ActionKind } from './actions.tsx';
import { actionKinds, actionName, actionNotes, PriorityDialog, useJobsAction } from './actions.tsx';

interface SelectionBarProps {
  readonly ids: readonly string[];
  readonly onDone?: () => void;
  /** Actions to offer; default: all. */
  readonly kinds?: readonly ActionKind[];
  /** Status of all of these jobs; default: they may differ. */
  readonly status?: JobStatus | undefined;
  readonly priority?: number;
}

/** Buttons for actions on the given jobs. */
export function SelectionBar(props: SelectionBarProps): ReactNode {
  const { ids, onDone, kinds = actionKinds, status, priority } = props;
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
          {actionName(kind, status)}
        </Button>
      ))}
      <Confirm
        opened={asked === 'cancel' || asked === 'delete'}
        onClose={close}
        onConfirm={() => {
          if (asked === 'cancel' || asked === 'delete') run({ ids, action: { kind: asked } });
        }}
        title={`${actionName(asked ?? 'cancel', status)} ${counted(ids.length, 'job')}?`}
        verb={`${actionName(asked ?? 'cancel', status)} ${counted(ids.length, 'job')}`}
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
