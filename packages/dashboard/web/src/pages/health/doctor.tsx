import { Button } from '@mantine/core';
import type { ReactNode } from 'react';
import type { Doctor } from '../../../../src/contract.ts';
import { useDoctor } from '../../api/queries.ts';
import { counted } from '../../format/numbers.ts';
import { span } from '../../format/times.ts';
import { Answer, Empty } from '../../ui/frame/answer.tsx';
import { Num } from '../../ui/numbers.tsx';
import { Panel } from '../../ui/frame/panel.tsx';
import { Status } from '../../ui/status.tsx';
import { DataTable } from '../../ui/lists/table.tsx';
import { Prose } from '../../ui/text.tsx';

/** Runs the doctor on request and shows its findings. */
export function DoctorPanel(): ReactNode {
  const query = useDoctor();
  const { data, error, isFetching, refetch } = query;
  const asked = data !== undefined || error !== null || isFetching;
  return (
    <Panel
      title="Doctor"
      note={
        data === undefined
          ? 'looks through every table: seconds on large ones'
          : `${counted(data.checked.length, 'check')} in ${span(data.tookMs)}`
      }
      actions={
        <Button size="compact-xs" variant="default" loading={isFetching} onClick={() => void refetch()}>
          {data === undefined ? 'Examine' : 'Examine again'}
        </Button>
      }
      flush
    >
      {asked ? (
        <Answer query={query} rows={3}>
          {(doctor) => <Findings doctor={doctor} />}
        </Answer>
      ) : (
        <Empty title="Not examined yet" />
      )}
    </Panel>
  );
}

function Findings({ doctor: { findings } }: { readonly doctor: Doctor }): ReactNode {
  if (findings.length === 0) return <Empty title="Healthy">No check found anything.</Empty>;
  return (
    <DataTable
      label="Findings"
      rows={findings}
      rowKey={({ check }) => check}
      columns={[
        { name: 'What should hold', leads: true, cell: ({ says }) => <Prose text={says} max={300} /> },
        { name: 'Severity', tight: true, cell: ({ severity }) => <Status of={severity} /> },
        { name: 'Found', align: 'right', tight: true, cell: ({ count }) => <Num value={count} /> },
        {
          name: 'Such as',
          minor: true,
          cell: ({ samples }) => <Prose text={samples.slice(0, 3).join(', ')} max={120} />,
        },
        {
          name: 'Remedy',
          cell: ({ remedy, mendable }) => (
            <Prose text={mendable ? `pgqueue doctor --mend, or: ${remedy}` : remedy} max={300} />
          ),
        },
      ]}
    />
  );
}
