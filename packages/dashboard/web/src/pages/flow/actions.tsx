import { Button, Group, Modal, Textarea, TextInput } from '@mantine/core';
import type { ReactNode } from 'react';
import { useState } from 'react';
import type { FlowActionRequest, FlowActionResult, FlowRow } from '../../../../src/contract.ts';
import type { Told } from '../../api/actions.tsx';
import { useAction } from '../../api/actions.tsx';
import { counted } from '../../format/numbers.ts';
import { visible } from '../../format/text.ts';
import { unreachable } from '../../format/unreachable.ts';
import { Confirm } from '../../ui/frame/confirm.tsx';

/** Actions on one flow, for buttons anywhere on its page. */
export interface FlowActions {
  readonly busy: boolean;
  /** Opens the dialog for a signal's value. */
  readonly askValue: (step: string) => void;
  /** Opens the question before a cancellation. */
  readonly askCancel: () => void;
  readonly retry: (step?: string) => void;
  /** The dialogs. */
  readonly dialogs: ReactNode;
}

function tell({ verdict, jobs, gone, holder }: FlowActionResult): Told {
  switch (verdict) {
    case 'signalled':
      return { message: 'Signalled' };
    case 'repeated':
      return { message: 'The signal has a value already, and that one counts', nothing: true };
    case 'ended':
      return { message: 'The flow or the step has ended, or is being cancelled', nothing: true };
    case 'cancelling':
      return { message: 'The flow is being cancelled' };
    case 'retried': {
      const lost = gone === 0 ? '' : `; ${counted(gone, 'job')} can’t come back: history has them no longer`;
      return { message: `Retried: ${counted(jobs, 'job')} put back${lost}` };
    }
    case 'nothing':
      return { message: 'No step has failed', nothing: true };
    case 'stopping':
      return { message: 'The flow is being cancelled: retry it when it has ended', nothing: true };
    case 'key_taken':
      return { message: `Another open flow has its unique key: ${visible(holder ?? '')}`, nothing: true };
    default:
      return unreachable(verdict);
  }
}

export function useFlowActions(flow: Pick<FlowRow, 'id' | 'progress'>): FlowActions {
  const { id } = flow;
  const [signalling, setSignalling] = useState<string>();
  const [cancelling, setCancelling] = useState(false);
  const { run, busy } = useAction<FlowActionRequest, FlowActionResult>({
    path: 'actions/flow',
    tell,
    onDone: () => setSignalling(undefined),
  });
  return {
    busy,
    askValue: setSignalling,
    askCancel: () => setCancelling(true),
    retry: (step) => run({ id, action: { kind: 'retry', ...(step !== undefined && { step }) } }),
    dialogs: (
      <>
        {signalling !== undefined && (
          <SignalDialog
            step={signalling}
            busy={busy}
            onClose={() => setSignalling(undefined)}
            onValue={(value) => run({ id, action: { kind: 'signal', step: signalling, value } })}
          />
        )}
        {cancelling && (
          <CancelDialog
            flow={flow}
            onClose={() => setCancelling(false)}
            onConfirm={(reason) => run({ id, action: { kind: 'cancel', ...(reason !== '' && { reason }) } })}
          />
        )}
      </>
    ),
  };
}

interface SignalDialogProps {
  readonly step: string;
  readonly busy: boolean;
  readonly onClose: () => void;
  readonly onValue: (value: unknown) => void;
}

/** Dialog for the value of a signal. It stays open until the value is taken, so that nothing typed is lost. */
function SignalDialog({ step, busy, onClose, onValue }: SignalDialogProps): ReactNode {
  const [text, setText] = useState('null');
  const [problem, setProblem] = useState<string>();
  return (
    <Modal opened onClose={onClose} title={`Signal ${visible(step)}`}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const parsed = parse(text);
          setProblem(parsed.problem);
          if (parsed.problem === undefined) onValue(parsed.value);
        }}
      >
        <Textarea
          label="Value"
          description="JSON, up to 256 KiB; steps that need it read it. The first value counts."
          value={text}
          onChange={({ currentTarget }) => {
            setText(currentTarget.value);
            setProblem(undefined);
          }}
          error={problem}
          rows={6}
          spellCheck={false}
          data-autofocus
        />
        <Group gap="xs" mt="md" justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Don’t
          </Button>
          <Button type="submit" loading={busy}>
            Signal
          </Button>
        </Group>
      </form>
    </Modal>
  );
}

function parse(text: string): { readonly value?: unknown; readonly problem?: string } {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return { problem: 'This is no JSON. A text stands in quotes: "yes"' };
  }
}

interface CancelDialogProps {
  readonly flow: Pick<FlowRow, 'progress'>;
  readonly onClose: () => void;
  readonly onConfirm: (reason: string) => void;
}

function CancelDialog({ flow: { progress }, onClose, onConfirm }: CancelDialogProps): ReactNode {
  const [reason, setReason] = useState('');
  const { steps, stepsEnded, added, done, dead, other } = progress;
  const jobs = Math.max(0, added - done - dead - other);
  return (
    <Confirm
      opened
      onClose={onClose}
      onConfirm={() => onConfirm(reason.trim())}
      title="Cancel this flow?"
      verb="Cancel the flow"
    >
      {counted(steps - stepsEnded, 'step')} and {counted(jobs, 'job')} have not ended. Waiting jobs end at
      once, the signals of running ones abort, and steps that wait are skipped.
      <TextInput
        mt="sm"
        label="Reason"
        description="optional, shown with the flow"
        maxLength={2_000}
        value={reason}
        onChange={({ currentTarget }) => setReason(currentTarget.value)}
      />
    </Confirm>
  );
}
