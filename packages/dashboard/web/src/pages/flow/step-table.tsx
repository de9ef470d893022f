import { Group, Select } from '@mantine/core';
import type { ReactNode } from 'react';
import { useMemo } from 'react';
import type { FlowStep } from '../../../../src/contract.ts';
import { exact } from '../../format/numbers.ts';
import { visible } from '../../format/text.ts';
import { Empty } from '../../ui/frame/answer.tsx';
import type { Given } from '../../ui/lists/filters.tsx';
import { Pager } from '../../ui/lists/pager.tsx';
import type { Column } from '../../ui/lists/table.tsx';
import { DataTable } from '../../ui/lists/table.tsx';
import { TextFilter } from '../../ui/lists/text-filter.tsx';
import { Mark } from '../../ui/status.tsx';
import { Foreign, LinkButton, Nothing } from '../../ui/text.tsx';
import { Span, Time } from '../../ui/time.tsx';
import classes from './flow.module.css';
import { Progress } from './state/progress.tsx';
import { countsText, stepTones, stepWords, wordOf } from './state/states.ts';

const shownMax = 100;
const needsMax = 3;

interface StepTableProps {
  readonly steps: readonly FlowStep[];
  readonly chosen: FlowStep | undefined;
  readonly values: { readonly show?: string; readonly find?: string; readonly from?: string };
  readonly set: (changes: Given) => void;
  readonly onChoose: (step: number) => void;
}

/** The steps as a table, 100 a page: for those who can't see the graph, and for searching. */
export function StepTable({ steps, chosen, values, set, onChoose }: StepTableProps): ReactNode {
  const { show, find = '', from } = values;
  const fitting = useMemo(
    () =>
      steps.filter(
        (step) =>
          (show === undefined || wordOf(step) === show) &&
          step.name.toLowerCase().includes(find.toLowerCase()),
      ),
    [steps, show, find],
  );
  const start = Math.max(
    0,
    fitting.findIndex(({ step }) => step >= Number(from ?? 0)),
  );
  const next = fitting[start + shownMax];
  const byNumber = useMemo(() => new Map(steps.map((step) => [step.step, step])), [steps]);
  return (
    <>
      <Group gap="xs" px="md" py="xs" role="search" aria-label="Filter steps">
        <TextFilter
          label="In the name"
          value={values.find}
          onChange={(text) => set({ find: text, from: undefined })}
        />
        <Select
          data-filter
          w={140}
          aria-label="State of the step"
          placeholder="Any state"
          data={[...stepWords]}
          value={show ?? null}
          onChange={(word) => set({ show: word ?? undefined, from: undefined })}
          clearable
          clearButtonProps={{ 'aria-label': 'Any state' }}
        />
        <span>
          {exact(fitting.length)} of {exact(steps.length)}
        </span>
      </Group>
      {fitting.length === 0 ? (
        <Empty title="No step fits" />
      ) : (
        <DataTable
          label="Steps"
          columns={columnsOf(byNumber, onChoose)}
          rows={fitting.slice(start, start + shownMax)}
          rowKey={({ step }) => String(step)}
          marked={({ step }) => step === chosen?.step}
        />
      )}
      <Pager
        after={from}
        next={next === undefined ? null : String(next.step)}
        onPage={(cursor) => set({ from: cursor })}
      />
    </>
  );
}

function columnsOf(
  byNumber: ReadonlyMap<number, FlowStep>,
  onChoose: (step: number) => void,
): readonly Column<FlowStep>[] {
  return [
    {
      name: 'Step',
      leads: true,
      cell: ({ step, name }) => (
        <LinkButton onClick={() => onChoose(step)}>
          <Foreign text={name} max={80} />
        </LinkButton>
      ),
    },
    { name: 'Layer', align: 'right', tight: true, minor: true, cell: ({ layer }) => layer + 1 },
    { name: 'Kind', tight: true, cell: ({ kind }) => kind },
    {
      name: 'State',
      tight: true,
      cell: (step) => <Mark tone={stepTones[wordOf(step)]}>{wordOf(step)}</Mark>,
    },
    { name: 'Progress', cell: (step) => <StepProgress step={step} /> },
    { name: 'Needs', minor: true, cell: (step) => <Needs step={step} byNumber={byNumber} /> },
    { name: 'Opened', tight: true, minor: true, cell: ({ opened }) => <Time at={opened} as="ago" /> },
    { name: 'Took', align: 'right', tight: true, minor: true, cell: (step) => <Took step={step} /> },
  ];
}

export function StepProgress({ step }: { readonly step: FlowStep }): ReactNode {
  if (step.kind === 'timer') {
    return step.due === null ? <Span ms={step.delayMs} /> : <Time at={step.due} as="ago" />;
  }
  if (step.kind === 'signal') return countsText(step);
  return (
    <span className={classes.progress}>
      {countsText(step)}
      <Progress of={step} />
    </span>
  );
}

/** Shows the time from the opening of a step to its end. */
export function Took({ step: { opened, ended } }: { readonly step: FlowStep }): ReactNode {
  if (opened === null || ended === null) return <Nothing says="not yet" />;
  return <Span ms={Date.parse(ended) - Date.parse(opened)} />;
}

function Needs({
  step: { needs, wants },
  byNumber,
}: {
  readonly step: FlowStep;
  readonly byNumber: ReadonlyMap<number, FlowStep>;
}): ReactNode {
  if (needs.length === 0) return <Nothing />;
  const names = needs
    .slice(0, needsMax)
    .map(
      ([step, condition]) =>
        `${visible(byNumber.get(step)?.name ?? '')}${condition === 'done' ? '' : ` (${condition})`}`,
    );
  const more = needs.length > needsMax ? [`${exact(needs.length - needsMax)} more`] : [];
  const any = wants === 'any' && needs.length > 1 ? 'any of ' : '';
  return <Foreign text={`${any}${[...names, ...more].join(', ')}`} max={120} />;
}
