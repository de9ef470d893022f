import { Button, Group } from '@mantine/core';
import type { ReactNode } from 'react';
import { useMemo } from 'react';
import type { FlowPage, FlowStep, NeedCondition } from '../../../../src/contract.ts';
import { exact } from '../../format/numbers.ts';
import { visible } from '../../format/text.ts';
import { Facts, Panel } from '../../ui/frame/panel.tsx';
import { to } from '../../ui/lists/filters.tsx';
import type { Column } from '../../ui/lists/table.tsx';
import { DataTable } from '../../ui/lists/table.tsx';
import { Mark } from '../../ui/status.tsx';
import { Faint, Foreign, LinkButton, To } from '../../ui/text.tsx';
import { Span, Time } from '../../ui/time.tsx';
import type { FlowActions } from './actions.tsx';
import classes from './flow.module.css';
import { Results } from './results.tsx';
import { endedOf, leftOf, stepTones, wordOf } from './state/states.ts';
import { StepProgress, Took } from './step-table.tsx';

const needsMax = 20;

interface StepDetailsProps {
  readonly page: FlowPage;
  readonly step: FlowStep;
  readonly actions: FlowActions;
  readonly onChoose: (name: string | undefined) => void;
}

/** Shows one step: what it waits for, its numbers, its jobs and their results. */
export function StepDetails({ page, step, actions, onChoose }: StepDetailsProps): ReactNode {
  const { flow, steps, waits } = page;
  const waiting = waits.find((one) => one.step === step.step);
  const hasEnds = endedOf(step) > 0 || step.signalled;
  return (
    <Panel
      title={`Step ${visible(step.name)}`}
      note={<Mark tone={stepTones[wordOf(step)]}>{wordOf(step)}</Mark>}
      actions={
        <Group gap="xs">
          <StepActions page={page} step={step} actions={actions} />
          <Button size="compact-xs" variant="subtle" color="gray" onClick={() => onChoose(undefined)}>
            Close
          </Button>
        </Group>
      }
    >
      <div className={classes.details}>
        <div>
          {waiting !== undefined && (
            <>
              <h3>{step.state === 'blocked' ? 'What it waits for' : 'What is left'}</h3>
              <p className={classes.reason}>
                <bdi>{visible(waiting.text)}</bdi>
              </p>
            </>
          )}
          <Needs step={step} steps={steps} onChoose={onChoose} />
          <NeededBy step={step} steps={steps} onChoose={onChoose} />
        </div>
        <div>
          <StepFacts step={step} />
          {step.kind === 'jobs' && step.state !== 'blocked' && <JobLinks flow={flow.id} step={step} />}
        </div>
        {hasEnds && (
          <div className={classes.wide}>
            <h3>{step.kind === 'signal' ? 'Its value' : 'Results, and jobs that are not done'}</h3>
            <Results key={step.name} flow={flow.id} step={step.name} />
          </div>
        )}
      </div>
    </Panel>
  );
}

function StepActions({ page, step, actions }: Omit<StepDetailsProps, 'onChoose'>): ReactNode {
  const canSignal =
    page.actions.includes('signal') && step.kind === 'signal' && step.state !== 'ended' && !step.signalled;
  const hasFailed = step.outcome === 'failed' || step.outcome === 'cancelled' || step.dead > 0;
  const canRetry = page.actions.includes('retry') && hasFailed;
  return (
    <>
      {canSignal && (
        <Button size="compact-xs" variant="default" onClick={() => actions.askValue(step.name)}>
          Signal…
        </Button>
      )}
      {canRetry && (
        <Button
          size="compact-xs"
          variant="default"
          disabled={actions.busy}
          onClick={() => actions.retry(step.name)}
        >
          Retry from here
        </Button>
      )}
    </>
  );
}

function StepFacts({ step }: { readonly step: FlowStep }): ReactNode {
  const { kind, added, opened, ended, delayMs, due, stopAfter } = step;
  const all: readonly (readonly [string, ReactNode] | false)[] = [
    ['Kind', kind],
    ['Progress', <StepProgress key="progress" step={step} />],
    kind === 'jobs' && ['Left', `${exact(leftOf(step))} of ${exact(added)}`],
    delayMs !== null && ['Takes', <Span key="takes" ms={delayMs} />],
    due !== null && ['Due', <Time key="due" at={due} />],
    opened !== null && ['Opened', <Time key="opened" at={opened} />],
    ended !== null && ['Ended', <Time key="ended" at={ended} />],
    opened !== null && ended !== null && ['Took', <Took key="took" step={step} />],
    stopAfter !== null && ['Stops after', `${exact(stopAfter)} dead`],
  ];
  return <Facts facts={all.filter((fact) => fact !== false)} />;
}

function JobLinks({ flow, step }: { readonly flow: string; readonly step: FlowStep }): ReactNode {
  const params = { flow, step: step.name };
  return (
    <p className={classes.links}>
      <To to={to('/jobs', params)}>Its jobs</To>
      {step.dead > 0 && <To to={to('/jobs', { ...params, status: 'dead' })}>Its dead jobs</To>}
      {step.state === 'open' && <To to={to('/jobs', { ...params, status: 'running' })}>Its running jobs</To>}
    </p>
  );
}

interface NeedRow {
  readonly needed: FlowStep;
  readonly condition: NeedCondition;
}

interface RelationProps {
  readonly step: FlowStep;
  readonly steps: readonly FlowStep[];
  readonly onChoose: (name: string) => void;
}

/** Lists what a step needs: those first that have not ended. */
function Needs({ step: { needs, wants }, steps, onChoose }: RelationProps): ReactNode {
  const rows = useMemo(() => {
    const byNumber = new Map(steps.map((step) => [step.step, step]));
    const all = needs.flatMap(([number, condition]): readonly NeedRow[] => {
      const needed = byNumber.get(number);
      return needed === undefined ? [] : [{ needed, condition }];
    });
    const isOver = ({ needed }: NeedRow): boolean => needed.state === 'ended';
    return [...all.filter((row) => !isOver(row)), ...all.filter(isOver)];
  }, [needs, steps]);
  if (rows.length === 0) return null;
  return (
    <>
      <h3>Needs {wants === 'any' && rows.length > 1 ? 'any of' : ''}</h3>
      <DataTable
        label="Needs"
        columns={needColumns(onChoose)}
        rows={rows.slice(0, needsMax)}
        rowKey={({ needed }) => String(needed.step)}
      />
      {rows.length > needsMax && <Faint>and {exact(rows.length - needsMax)} more</Faint>}
    </>
  );
}

function needColumns(onChoose: (name: string) => void): readonly Column<NeedRow>[] {
  return [
    {
      name: 'Step',
      leads: true,
      cell: ({ needed: { name } }) => (
        <LinkButton onClick={() => onChoose(name)}>
          <Foreign text={name} max={60} />
        </LinkButton>
      ),
    },
    { name: 'Must be', tight: true, cell: ({ condition }) => condition },
    {
      name: 'State',
      tight: true,
      cell: ({ needed }) => <Mark tone={stepTones[wordOf(needed)]}>{wordOf(needed)}</Mark>,
    },
    {
      name: 'Left',
      align: 'right',
      tight: true,
      cell: ({ needed }) => (needed.kind === 'jobs' ? exact(leftOf(needed)) : needed.kind),
    },
  ];
}

function NeededBy({ step: { step }, steps, onChoose }: RelationProps): ReactNode {
  const all = useMemo(
    () => steps.filter(({ needs }) => needs.some(([needed]) => needed === step)),
    [step, steps],
  );
  if (all.length === 0) return null;
  return (
    <>
      <h3>Needed by</h3>
      <p className={classes.links}>
        {all.slice(0, needsMax).map(({ step: number, name }) => (
          <LinkButton key={number} onClick={() => onChoose(name)}>
            <Foreign text={name} max={60} />
          </LinkButton>
        ))}
        {all.length > needsMax && <Faint>and {exact(all.length - needsMax)} more</Faint>}
      </p>
    </>
  );
}
