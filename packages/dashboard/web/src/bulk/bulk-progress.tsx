import { Button, Group, Progress } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { useEffect } from 'react';
import type { BulkRun } from '../../../src/contract.ts';
import { sayFailure, takeBack } from '../api/actions.tsx';
import { useBulkRun } from '../api/bulk.ts';
import { post } from '../api/client.ts';
import { useIsOperator } from '../api/queries.ts';
import { counted, exact } from '../format/numbers.ts';
import { visible } from '../format/text.ts';
import { Answer } from '../ui/frame/answer.tsx';
import { countText } from '../ui/counts.tsx';
import { Faint } from '../ui/text.tsx';

interface BulkProgressProps {
  readonly id: string;
  readonly onClose: () => void;
}

export function BulkProgress({ id, onClose }: BulkProgressProps): ReactNode {
  const query = useBulkRun(id);
  const cache = useQueryClient();
  const state = query.data?.state;
  useEffect(() => {
    if (state === undefined || state === 'running') return;
    void cache.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'bulk' });
  }, [state, cache]);
  return (
    <Answer query={query} rows={3}>
      {(run) => <Run run={run} onClose={onClose} />}
    </Answer>
  );
}

const words: Readonly<Record<BulkRun['state'], string>> = {
  running: 'Under way',
  done: 'Done',
  stopped: 'Stopped',
  failed: 'Failed',
};

function Run({ run, onClose }: { readonly run: BulkRun; readonly onClose: () => void }): ReactNode {
  const cache = useQueryClient();
  const operator = useIsOperator();
  const { id, state, seen, done, total, error, undo } = run;
  const stop = useMutation({
    mutationFn: () => post<BulkRun>(`bulk/${encodeURIComponent(id)}/stop`, {}),
    onSuccess: (stopped) => cache.setQueryData(['bulk', id], stopped),
    onError: sayFailure,
  });
  const running = state === 'running';
  const share = running ? Math.min(99, (seen / Math.max(1, total.count)) * 100) : 100;
  return (
    <div aria-live="polite">
      <p>
        <b>{words[state]}.</b> {counted(done, 'job')} changed, {exact(seen)} of {countText(total, exact)}{' '}
        looked at.
      </p>
      <Progress
        value={share}
        size="sm"
        animated={running}
        {...(state === 'failed' && { color: 'red' })}
        aria-label="Jobs looked at"
      />
      {error !== null && <p role="alert">{visible(error)}</p>}
      {running && <Faint>It goes on when this is closed.</Faint>}
      <Group gap="xs" mt="md" justify="flex-end">
        {running && operator && (
          <Button variant="default" loading={stop.isPending} onClick={() => stop.mutate()}>
            Stop
          </Button>
        )}
        {undo !== null && operator && (
          <Button
            variant="light"
            onClick={() => {
              onClose();
              void takeBack(undo, () => void cache.invalidateQueries());
            }}
          >
            Undo
          </Button>
        )}
        <Button variant={running ? 'default' : 'filled'} onClick={onClose}>
          Close
        </Button>
      </Group>
    </div>
  );
}
