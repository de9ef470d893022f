import { Button } from '@mantine/core';
import type { ReactNode } from 'react';
import { useParams } from 'wouter';
import type { FlowPage as Flow, FlowRow } from '../../../src/contract.ts';
import { ApiProblem } from '../api/client.ts';
import { useFlow } from '../api/queries.ts';
import { exact } from '../format/numbers.ts';
import { visible } from '../format/text.ts';
import { Elsewhere } from '../ui/frame/elsewhere.tsx';
import { Answer, Empty } from '../ui/frame/answer.tsx';
import { Page } from '../ui/frame/page.tsx';
import type { Figure } from '../ui/frame/panel.tsx';
import { Figures, Panel } from '../ui/frame/panel.tsx';
import { Warnings } from '../ui/frame/warnings.tsx';
import { CopyId } from '../ui/copy-id.tsx';
import { to, useFilters } from '../ui/lists/filters.tsx';
import { Num } from '../ui/numbers.tsx';
import { Faint, JobId, LinkButton, Name, To } from '../ui/text.tsx';
import { Span, Time } from '../ui/time.tsx';
import type { FlowActions } from './flow/actions.tsx';
import { useFlowActions } from './flow/actions.tsx';
import classes from './flow/flow.module.css';
import { FlowMark } from './flow/state/flow-mark.tsx';
import { StepDetails } from './flow/step-details.tsx';
import { stepFilters, Steps } from './flow/steps.tsx';
import headings from './job/job.module.css';

export function FlowPage(): ReactNode {
  const { id } = useParams<{ id: string }>();
  const query = useFlow(id);
  const gone = query.error instanceof ApiProblem && query.error.code === 'not_found';
  if (gone) {
    return (
      <Page title={`Flow ${visible(id).slice(-12)}`}>
        <Empty title="There is no such flow">
          It never was, or ended more than seven days ago. <To to="/flows">All flows</To>
          <Elsewhere id={id} />
        </Empty>
      </Page>
    );
  }
  if (query.data === undefined) {
    return (
      <Page title={`Flow ${visible(id).slice(-12)}`}>
        <Answer query={query} rows={12}>
          {() => null}
        </Answer>
      </Page>
    );
  }
  return <Whole page={query.data} answer={(content) => <Answer query={query}>{() => content}</Answer>} />;
}

interface WholeProps {
  readonly page: Flow;
  /** Shows what is there, and that it is not fresh. */
  readonly answer: (content: ReactNode) => ReactNode;
}

function Whole({ page, answer }: WholeProps): ReactNode {
  const { flow, steps } = page;
  const actions = useFlowActions(flow);
  const { values, set } = useFilters(stepFilters);
  const chosen = values.step === undefined ? undefined : steps.find(({ name }) => name === values.step);
  const choose = (step: string | undefined): void => set({ step });
  return (
    <Page
      title={`Flow ${visible(flow.id).slice(-12)}`}
      heading={<Heading flow={flow} />}
      note={<Keys flow={flow} />}
      actions={page.actions.length > 0 ? <Buttons page={page} actions={actions} /> : undefined}
    >
      {answer(
        <>
          <Notes page={page} />
          <FlowFigures flow={flow} />
          <Steps steps={steps} chosen={chosen} values={values} set={set} />
          {chosen !== undefined && (
            <StepDetails page={page} step={chosen} actions={actions} onChoose={choose} />
          )}
          <Waits page={page} onChoose={choose} />
        </>,
      )}
      {actions.dialogs}
    </Page>
  );
}

function Heading({ flow }: { readonly flow: FlowRow }): ReactNode {
  return (
    <span className={headings.heading}>
      <Name text={flow.name} />
      <span className={headings.status}>
        <FlowMark flow={flow} />
      </span>
      <span className={headings.id}>
        {visible(flow.id)}
        <CopyId id={flow.id} />
      </span>
    </span>
  );
}

function Keys({ flow: { key, uniqueKey, waiter, ended } }: { readonly flow: FlowRow }): ReactNode {
  return (
    <>
      {key !== '' && (
        <>
          Key{' '}
          <To to={to('/flows', { key })}>
            <Name text={key} max={60} />
          </To>{' '}
        </>
      )}
      {uniqueKey !== null && (
        <>
          Unique key <Name text={uniqueKey} max={60} />{' '}
        </>
      )}
      {waiter !== null && (
        <>
          <JobId id={waiter} /> {ended === null ? 'waits' : 'waited'} for its end
        </>
      )}
    </>
  );
}

function Buttons({ page, actions }: { readonly page: Flow; readonly actions: FlowActions }): ReactNode {
  return (
    <>
      {page.actions.includes('retry') && (
        <Button size="compact-xs" variant="default" disabled={actions.busy} onClick={() => actions.retry()}>
          Retry what failed
        </Button>
      )}
      {page.actions.includes('cancel') && (
        <Button size="compact-xs" variant="default" disabled={actions.busy} onClick={actions.askCancel}>
          Cancel…
        </Button>
      )}
    </>
  );
}

/** Tells why it failed or was cancelled, and that nobody leads. */
function Notes({ page: { flow, leader } }: { readonly page: Flow }): ReactNode {
  const warnings =
    flow.state === 'open' && leader === null
      ? [{ kind: 'no_leader', message: 'No scheduler leads: no step ends or opens.' } as const]
      : [];
  return (
    <>
      <Warnings warnings={warnings} />
      {flow.reason !== null && (
        <p className={classes.reason}>
          <Faint>Reason: </Faint>
          <bdi>{visible(flow.reason)}</bdi>
        </p>
      )}
    </>
  );
}

function FlowFigures({ flow }: { readonly flow: FlowRow }): ReactNode {
  const { progress, created, ended, deadline, ageMs } = flow;
  const { steps, stepsEnded, added, done, dead, other } = progress;
  const figures: readonly Figure[] = [
    { label: 'Steps ended', value: exact(stepsEnded), note: `of ${exact(steps)}` },
    { label: 'Jobs done', value: <Num value={done} />, note: `of ${exact(added)}` },
    { label: 'Jobs left', value: <Num value={Math.max(0, added - done - dead - other)} /> },
    { label: 'Dead', value: <Num value={dead} />, tone: dead > 0 ? 'bad' : undefined },
    { label: 'Cancelled, expired', value: <Num value={other} /> },
    {
      label: ended === null ? 'Age' : 'Took',
      value: <Span ms={ended === null ? ageMs : Date.parse(ended) - Date.parse(created)} />,
      note: <Time at={created} />,
    },
    ...(deadline === null ? [] : [{ label: 'Deadline', value: <Time at={deadline} as="ago" /> }]),
  ];
  return <Figures figures={figures} />;
}

/** Explains the steps that have not ended, as `pgqueue flows show` does. */
function Waits({
  page: { waits, moreWaits, steps },
  onChoose,
}: {
  readonly page: Flow;
  readonly onChoose: (name: string) => void;
}): ReactNode {
  if (waits.length === 0) return null;
  const names = new Map(steps.map(({ step, name }) => [step, name]));
  return (
    <Panel title="What it waits for" note={moreWaits > 0 ? `and ${exact(moreWaits)} more steps` : undefined}>
      <ul className={classes.waits} tabIndex={0} aria-label="Steps that have not ended">
        {waits.map(({ step, text }) => (
          <li key={step}>
            <LinkButton onClick={() => onChoose(names.get(step) ?? '')}>
              <Name text={names.get(step) ?? ''} max={60} />
            </LinkButton>{' '}
            <bdi>{visible(text)}</bdi>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
