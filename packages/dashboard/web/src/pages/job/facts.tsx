import type { ReactNode } from 'react';
import type { JobPage } from '../../../../src/contract.ts';
import { visible } from '../../format/text.ts';
import { to } from '../../ui/lists/filters.tsx';
import { Facts as FactList, Panel } from '../../ui/frame/panel.tsx';
import { Name, Nothing, To } from '../../ui/text.tsx';
import { Span, Time } from '../../ui/time.tsx';

type Job = JobPage['job'];

/** Shows all known properties of a job except its documents; empty ones are left out. */
export function Facts({ job }: { readonly job: Job }): ReactNode {
  const all: readonly (readonly [string, ReactNode] | false)[] = [
    [
      'Queue',
      <To key="queue" to={to('/jobs', { queue: job.queue })}>
        <Name text={job.queue} />
      </To>,
    ],
    [
      'Key',
      <To key="key" to={to('/jobs', { queue: job.queue, key: job.key })}>
        <Name text={job.key} />
      </To>,
    ],
    [
      'Task',
      <To key="task" to={to('/jobs', { task: job.task })}>
        <Name text={job.task} />
      </To>,
    ],
    job.flow !== null && ['Flow', <FlowLink key="flow" flow={job.flow} />],
    job.flow !== null && ['Step', <StepLink key="step" flow={job.flow} />],
    ['Priority', job.priority],
    ['Tries', limited(job.tries, job.maxTries)],
    ['Crashes', limited(job.crashes, job.maxCrashes)],
    ['Created', <Time key="created" at={job.created} />],
    job.runAfter !== null && ['Not before', <Time key="after" at={job.runAfter} />],
    job.started !== null && ['Started', <Time key="started" at={job.started} />],
    job.finished !== null && ['Finished', <Time key="finished" at={job.finished} />],
    job.expiresAt !== null && ['Expires', <Time key="expires" at={job.expiresAt} />],
    [
      'Timeout',
      job.timeoutMs === null ? (
        <Nothing key="timeout" says="as its task says" />
      ) : (
        <Span key="timeout" ms={job.timeoutMs} />
      ),
    ],
    job.node !== null && [
      'Node',
      <To key="node" to={to('/nodes', { node: job.node })}>
        <Name text={job.node} />
      </To>,
    ],
    job.pool !== null && ['Pool', <Name key="pool" text={job.pool} />],
    job.position !== null && ['Place in the order', <Name key="position" text={job.position} />],
    job.uniqueKey !== null && ['Unique key', <Name key="unique" text={job.uniqueKey} />],
    ['Payload version', job.payloadVersion],
    job.suspect && ['Suspect', 'lost with its node before: nodes begin such jobs one by one'],
    job.hasCheckpoint && ['Checkpoint', 'kept for the next attempt'],
    job.reason !== null && ['Reason', visible(job.reason.replaceAll('_', ' '))],
    job.traceparent !== null && ['Trace', <Name key="trace" text={job.traceparent} />],
  ];
  return (
    <Panel title="Job">
      <FactList facts={all.filter((fact) => fact !== false)} />
    </Panel>
  );
}

interface FlowProps {
  readonly flow: NonNullable<Job['flow']>;
}

function FlowLink({ flow: { id, name } }: FlowProps): ReactNode {
  return (
    <To to={`/flows/${encodeURIComponent(id)}`}>
      <Name text={name ?? id} />
    </To>
  );
}

function StepLink({ flow: { id, step } }: FlowProps): ReactNode {
  if (step === null) return <Nothing says="no longer kept" />;
  return (
    <To to={to(`/flows/${encodeURIComponent(id)}`, { step })}>
      <Name text={step} />
    </To>
  );
}

function limited(value: number, max: number | null): string {
  return max === null ? String(value) : `${value} of ${max}`;
}
