import { Button, Group, SegmentedControl, Select } from '@mantine/core';
import type { ReactNode } from 'react';
import { useCallback, useMemo } from 'react';
import type { FlowStep } from '../../../../src/contract.ts';
import { clipped, visible } from '../../format/text.ts';
import { exact } from '../../format/numbers.ts';
import type { Given } from '../../ui/lists/filters.tsx';
import { Panel } from '../../ui/frame/panel.tsx';
import { Graph } from './graph/graph.tsx';
import type { StepWord } from './state/states.ts';
import { wordOf } from './state/states.ts';
import { StepTable } from './step-table.tsx';
import classes from './flow.module.css';

type View = 'graph' | 'tiles' | 'table';

const views: { value: View; label: string }[] = [
  { value: 'graph', label: 'Graph' },
  { value: 'tiles', label: 'Tiles' },
  { value: 'table', label: 'Table' },
];

export const stepFilters = ['view', 'step', 'show', 'find', 'from'] as const;

interface StepsProps {
  readonly steps: readonly FlowStep[];
  readonly chosen: FlowStep | undefined;
  readonly values: { readonly [name in (typeof stepFilters)[number]]?: string };
  readonly set: (changes: Given) => void;
}

/** Shows the steps of a flow as a graph, as tiles for a survey, or as a table with the same data. */
export function Steps({ steps, chosen, values, set }: StepsProps): ReactNode {
  const view = views.find(({ value }) => value === values.view)?.value ?? 'graph';
  const choose = useChoice(steps, set);
  return (
    <Panel
      title="Steps"
      actions={
        <Group gap="xs">
          <Jumps steps={steps} chosen={chosen} onChoose={choose} />
          <StepPicker steps={steps} chosen={chosen} onChoose={choose} />
          <SegmentedControl
            size="xs"
            value={view}
            data={views}
            aria-label="View"
            onChange={(next) => set({ view: next === 'graph' ? undefined : next })}
          />
        </Group>
      }
      flush
    >
      {view === 'table' ? (
        <StepTable steps={steps} chosen={chosen} values={values} set={set} onChoose={choose} />
      ) : (
        <Graph
          key={view}
          steps={steps}
          scale={view === 'tiles' ? 'tiles' : 'cards'}
          chosen={chosen?.step}
          onChoose={choose}
        />
      )}
    </Panel>
  );
}

/** Returns a function that puts a step's name into the address. The same function as long as the names are. */
function useChoice(steps: readonly FlowStep[], set: (changes: Given) => void): (step: number) => void {
  const names = useMemo(() => new Map(steps.map(({ step, name }) => [step, name])), [steps]);
  return useCallback((step: number) => set({ step: names.get(step) }), [names]);
}

interface ChoiceProps {
  readonly steps: readonly FlowStep[];
  readonly chosen: FlowStep | undefined;
  readonly onChoose: (step: number) => void;
}

const jumps: readonly { readonly word: StepWord; readonly label: string }[] = [
  { word: 'failed', label: 'failed' },
  { word: 'cancelled', label: 'cancelled' },
  { word: 'open', label: 'open' },
];

/** Buttons that lead to the next step of a state, and after the last one to the first. */
function Jumps({ steps, chosen, onChoose }: ChoiceProps): ReactNode {
  const byWord = useMemo(
    () => jumps.map((jump) => ({ ...jump, members: steps.filter((step) => wordOf(step) === jump.word) })),
    [steps],
  );
  return byWord.map(({ word, label, members }) => {
    const next = members.find(({ step }) => step > (chosen?.step ?? -1)) ?? members[0];
    if (next === undefined) return null;
    return (
      <Button key={word} size="compact-xs" variant="default" onClick={() => onChoose(next.step)}>
        Next {label} ({exact(members.length)})
      </Button>
    );
  });
}

/** Options that the list shows; typing narrows them. */
const optionsMax = 50;

function StepPicker({ steps, chosen, onChoose }: ChoiceProps): ReactNode {
  const data = useMemo(
    () => steps.map(({ step, name }) => ({ value: String(step), label: clipped(visible(name), 60) })),
    [steps],
  );
  return (
    <Select
      data-filter
      className={classes.picker}
      aria-label="Go to step"
      placeholder="Go to step"
      data={data}
      limit={optionsMax}
      value={chosen === undefined ? null : String(chosen.step)}
      onChange={(value) => {
        if (value !== null) onChoose(Number(value));
      }}
      searchable
      nothingFoundMessage="No such step"
    />
  );
}
