import { Group, Modal, NumberInput, Button } from '@mantine/core';
import type { ReactNode } from 'react';
import { useState } from 'react';
import type { JobAction, JobsAction, JobsActionResult, JobStatus } from '../../../../src/contract.ts';
import type { Action, Told } from '../../api/actions.tsx';
import { useAction } from '../../api/actions.tsx';
import { counted } from '../../format/numbers.ts';

export type ActionKind = JobAction['kind'];

const actionNames: Readonly<Record<ActionKind, string>> = {
  retry: 'Retry',
  run_now: 'Run now',
  cancel: 'Cancel',
  reprioritise: 'Reprioritise',
  delete: 'Delete',
};

/** Names an action on jobs of one status; undefined: of several. */
export function actionName(kind: ActionKind, status: JobStatus | undefined): string {
  return kind === 'retry' && status === 'dead' ? 'Redrive' : actionNames[kind];
}

export const actionKinds = Object.keys(actionNames) as readonly ActionKind[];

/** Explanations shown before an action is confirmed. */
export const actionNotes: Readonly<Record<ActionKind, string>> = {
  retry: 'Waiting jobs become due now; dead ones go back into their queues, with fresh limits.',
  run_now: 'Waiting jobs become due now, whatever delay or backoff they wait for.',
  cancel: 'Waiting jobs end at once; the signal of running ones aborts.',
  reprioritise: 'Waiting jobs get this priority; smaller runs first.',
  delete: 'Jobs are removed without a trace, unless they run.',
};

const did: Readonly<Record<ActionKind, string>> = {
  retry: 'due again',
  run_now: 'due now',
  cancel: 'cancelled',
  reprioritise: 'reprioritised',
  delete: 'deleted',
};

function tell({ verdicts, done, undo }: JobsActionResult, { action }: JobsAction): Told {
  const signalled = verdicts.filter(({ verdict }) => verdict === 'signalled').length;
  const left = verdicts.length - done;
  const stayed = new Set(verdicts.flatMap(({ status }) => (status === null ? [] : [status])));
  const parts = [
    done > 0 && `${counted(done, 'job')} ${did[action.kind]}`,
    signalled > 0 && `${signalled} told while running`,
    left > 0 &&
      `${left} left as ${left === 1 ? 'it is' : 'they are'}${stayed.size > 0 ? ` (${[...stayed].join(', ')})` : ''}`,
  ].filter((part) => part !== false);
  return { message: parts.join('; '), undo, nothing: done === 0 };
}

/** Runs actions on given jobs. */
export function useJobsAction(onDone?: () => void): Action<JobsAction> {
  return useAction<JobsAction, JobsActionResult>({
    path: 'actions/jobs',
    tell,
    ...(onDone !== undefined && { onDone }),
  });
}

interface PriorityDialogProps {
  readonly opened: boolean;
  readonly onClose: () => void;
  readonly onChoose: (priority: number) => void;
  readonly initial?: number;
}

/** Dialog for a priority. */
export function PriorityDialog({ opened, onClose, onChoose, initial = 0 }: PriorityDialogProps): ReactNode {
  const [priority, setPriority] = useState<number | string>(initial);
  return (
    <Modal opened={opened} onClose={onClose} title="Reprioritise" size="sm">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (priority === '') return;
          onChoose(Number(priority));
          onClose();
        }}
      >
        <NumberInput
          label="Priority"
          description="smaller runs first"
          value={priority}
          onChange={setPriority}
          min={-2_147_483_648}
          max={2_147_483_647}
          allowDecimal={false}
          data-autofocus
        />
        <Group gap="xs" mt="md" justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" disabled={priority === ''}>
            Set priority
          </Button>
        </Group>
      </form>
    </Modal>
  );
}
