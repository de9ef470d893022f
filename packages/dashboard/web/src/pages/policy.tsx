import type { ReactNode } from 'react';
import type { PolicyPage as Policy } from '../../../src/contract.ts';
import { usePolicy } from '../api/queries.ts';
import { bytes } from '../format/numbers.ts';
import { pretty, visible } from '../format/text.ts';
import { span } from '../format/times.ts';
import { Answer } from '../ui/frame/answer.tsx';
import { Num } from '../ui/numbers.tsx';
import { Page } from '../ui/frame/page.tsx';
import type { Figure } from '../ui/frame/panel.tsx';
import { Figures, Panel } from '../ui/frame/panel.tsx';
import { DataTable } from '../ui/lists/table.tsx';
import { Faint, Name, Nothing, Prose } from '../ui/text.tsx';
import { Span, Time } from '../ui/time.tsx';
import { FairOrder } from './policy/fair-order.tsx';
import { Gates } from './policy/gates.tsx';
import { ShadowPanel } from './policy/shadow.tsx';
import classes from './policy/policy.module.css';

export function PolicyPage(): ReactNode {
  const query = usePolicy();
  return (
    <Page title="Policy" note="What the leading scheduler’s rules hold, and how it decides who is next.">
      <Answer query={query} rows={12}>
        {(policy) => <Content policy={policy} />}
      </Answer>
    </Page>
  );
}

function Content({ policy }: { readonly policy: Policy }): ReactNode {
  const { held, leads, shadow, faults } = policy;
  return (
    <>
      <Figures figures={figuresOf(policy)} />
      {faults.length > 0 && <Faults policy={policy} />}
      <Gates held={held} />
      <FairOrder leads={leads} />
      <ShadowPanel shadow={shadow} />
      <State policy={policy} />
    </>
  );
}

function figuresOf({
  policy,
  leader,
  epoch,
  reported,
  stale,
  ticks,
  lanes,
  inFlight,
}: Policy): readonly Figure[] {
  return [
    {
      label: 'Policy',
      value: policy === null ? <Nothing says="not reported" /> : <Name text={policy} max={30} />,
      note: stale ? 'this is an old report' : <Time at={reported} as="ago" />,
      tone: stale ? 'warn' : undefined,
    },
    {
      label: 'Leader',
      value: leader === null ? 'nobody' : <Name text={leader} max={24} />,
      note: `epoch ${epoch}`,
      tone: leader === null ? 'bad' : undefined,
    },
    {
      label: 'Plan, median',
      value: <Span ms={ticks?.p50Ms} />,
      note: ticks === null || ticks.p99Ms === null ? 'no tick yet' : `p99 ${span(ticks.p99Ms)}`,
    },
    { label: 'Last batch', value: <Num value={ticks?.lastBatch} />, note: 'jobs' },
    { label: 'Dispatched', value: <Num value={ticks?.dispatched} />, note: 'jobs, since it leads' },
    { label: 'Lanes', value: <Num value={lanes} />, note: 'keys with waiting jobs' },
    { label: 'In flight', value: <Num value={inFlight} />, note: 'ready or running' },
  ];
}

function Faults({ policy: { faults } }: { readonly policy: Policy }): ReactNode {
  return (
    <Panel title="Faults of the policy" note="what failed lately; the tick then fell back" flush>
      <DataTable
        label="Faults"
        rows={faults}
        rowKey={({ policy, part, message }) => JSON.stringify([policy, part, message])}
        columns={[
          { name: 'Message', leads: true, cell: ({ message }) => <Prose text={message} /> },
          { name: 'Part', cell: ({ part }) => <Name text={part} /> },
          { name: 'Policy', cell: ({ policy }) => <Name text={policy} /> },
          { name: 'Times', align: 'right', cell: ({ count }) => <Num value={count} /> },
          { name: 'Last', cell: ({ last }) => <Time at={last} as="ago" /> },
          { name: 'Suspended until', cell: ({ suspendedUntil }) => <Time at={suspendedUntil} /> },
        ]}
      />
    </Panel>
  );
}

function State({ policy: { state } }: { readonly policy: Policy }): ReactNode {
  if (state.length === 0) return null;
  return (
    <Panel title="What it keeps from plan to plan" note="as it is stored, for the next leader">
      {state.map((kept) => (
        <details key={kept.policy} className={classes.state}>
          <summary>
            {visible(kept.policy)}{' '}
            <Faint>
              {bytes(kept.bytes)}, saved <Time at={kept.saved} as="ago" />
            </Faint>
          </summary>
          <pre tabIndex={0} dir="ltr">
            {kept.state === null ? 'too large to show' : visible(pretty(kept.state))}
          </pre>
        </details>
      ))}
    </Panel>
  );
}
