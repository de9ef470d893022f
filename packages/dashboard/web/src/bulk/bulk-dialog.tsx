import { Button, Group, Modal } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { useState } from 'react';
import type { BulkPreview, BulkRequest, BulkRun } from '../../../src/contract.ts';
import { sayFailure } from '../api/actions.tsx';
import { post } from '../api/client.ts';
import { usePreview } from '../api/bulk.ts';
import { exact } from '../format/numbers.ts';
import { Answer } from '../ui/frame/answer.tsx';
import { countText } from '../ui/counts.tsx';
import { Status } from '../ui/status.tsx';
import { DataTable } from '../ui/lists/table.tsx';
import { Faint, Name } from '../ui/text.tsx';
import { Time } from '../ui/time.tsx';
import { BulkProgress } from './bulk-progress.tsx';

interface BulkDialogProps {
  /** Action and filter; undefined: the dialog is closed. */
  readonly request: BulkRequest | undefined;
  readonly onClose: () => void;
  readonly title: string;
  readonly verb: string;
  readonly note: string;
}

/** Dialog of a bulk action: first a preview with count and sample, then the progress, then undo. */
export function BulkDialog({ request, onClose, title, verb, note }: BulkDialogProps): ReactNode {
  const [run, setRun] = useState<string>();
  const close = (): void => {
    setRun(undefined);
    onClose();
  };
  return (
    <Modal opened={request !== undefined} onClose={close} title={title} size="lg">
      {request !== undefined && run === undefined && (
        <Preview request={request} verb={verb} note={note} onClose={close} onBegun={setRun} />
      )}
      {run !== undefined && <BulkProgress id={run} onClose={close} />}
    </Modal>
  );
}

interface PreviewProps {
  readonly request: BulkRequest;
  readonly verb: string;
  readonly note: string;
  readonly onClose: () => void;
  readonly onBegun: (run: string) => void;
}

function Preview({ request, verb, note, onClose, onBegun }: PreviewProps): ReactNode {
  const cache = useQueryClient();
  const preview = usePreview(request);
  const { mutate, isPending } = useMutation({
    mutationFn: () => post<BulkRun>('bulk', request),
    onSuccess: (run) => {
      cache.setQueryData(['bulk', run.id], run);
      onBegun(run.id);
    },
    onError: sayFailure,
  });
  const count = preview.data?.jobs;
  const words =
    count === undefined ? verb : `${verb} ${countText(count, exact)} ${count.count === 1 ? 'job' : 'jobs'}`;
  return (
    <>
      <p>{note}</p>
      <Answer query={preview} rows={4}>
        {(answer) => <PreviewTable preview={answer} />}
      </Answer>
      <Group gap="xs" mt="md" justify="flex-end">
        <Button variant="default" onClick={onClose} data-autofocus>
          Don’t
        </Button>
        <Button
          {...(request.action.kind === 'delete' && { color: 'red' })}
          loading={isPending}
          disabled={count === undefined || count.count === 0}
          onClick={() => mutate()}
        >
          {words}
        </Button>
      </Group>
    </>
  );
}

function PreviewTable({ preview: { jobs, sample, undoable } }: { readonly preview: BulkPreview }): ReactNode {
  return (
    <>
      <p>
        <b>{countText(jobs, exact)}</b> {jobs.count === 1 ? 'job fits' : 'jobs fit'} now.{' '}
        {undoable ? 'It can be undone for a while.' : 'It can’t be undone.'}
      </p>
      {sample.length > 0 && (
        <DataTable
          label="The first jobs that fit"
          rows={sample}
          rowKey={({ id }) => id}
          columns={[
            { name: 'Job', leads: true, cell: ({ id }) => <Name text={id.slice(-12)} /> },
            { name: 'State', cell: ({ status }) => <Status of={status} /> },
            { name: 'Task', cell: ({ task }) => <Name text={task} max={30} /> },
            { name: 'Key', cell: ({ key }) => <Name text={key} max={30} /> },
            { name: 'Created', cell: ({ created }) => <Time at={created} as="ago" /> },
          ]}
        />
      )}
      {jobs.count > sample.length && <Faint>and {exact(jobs.count - sample.length)} more</Faint>}
    </>
  );
}
