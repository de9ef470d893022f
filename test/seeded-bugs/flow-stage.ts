import { randomUUID } from 'node:crypto';
import { addJobs, advanceFlows } from '@pgqueue/postgres/internal';
import type { Lease, Leader } from '@pgqueue/postgres/internal';
import type { Ground, Member } from '../integration/sql/support.ts';

/** Resolves to problems; empty: the scenario is good. */
export type FlowScenario = (ground: Ground) => Promise<readonly string[]>;

const firstFlow = '00000000-0000-0000-0000-000000000000';

/** A flow with a step of jobs, one step for when all of them are done, and one for when some failed. */
export interface FlowStage {
  readonly flow: string;
  readonly node: Member;
  /** Claims all jobs of the first step, in the order of their ids. */
  readonly begin: (node: Member) => Promise<readonly Lease[]>;
  readonly end: (lease: Lease, outcome: 'done' | 'dead') => Promise<void>;
  /** Adds a job to the step, as the attempt of that lease. Resolves to its id. */
  readonly add: (lease: Lease) => Promise<string>;
  /** Moves flows on, once, from their tallies. */
  readonly advance: (leader?: Leader) => Promise<void>;
  /** Text that moves flows on from the walk, without tallies. */
  readonly walkText: () => string;
  /** Compares the flow with how its jobs have ended, as far as this stage was told. */
  readonly judge: () => Promise<readonly string[]>;
}

export async function stageFlow(ground: Ground, count: number): Promise<FlowStage> {
  const flow = randomUUID();
  const ids = Array.from({ length: count }, (): string => randomUUID());
  const ends = new Map<string, 'done' | 'dead'>();
  const ours = new Set(ids);
  const steps = [
    { name: 'pages', jobs: ids.map((id) => ({ id, task: 'hello' })) },
    { name: 'sum', jobs: [{ task: 'hello' }], needs: [[0, 'done']] },
    { name: 'mend', jobs: [{ task: 'hello' }], needs: [[0, 'failed']] },
  ];
  await ground.sql('select pgqueue.start_flow($1::jsonb)', [
    JSON.stringify({ id: flow, name: 'staged', steps }),
  ]);
  const advance: FlowStage['advance'] = async (leader = ground.leader()) =>
    void (await advanceFlows(ground.database, leader, { from: 0, max: 500, walk: null }));
  // the tally of the start is none of a job
  await advance();
  return {
    flow,
    node: await ground.node('n1'),
    begin: async (node) => {
      await ground.dispatch(ids);
      const claimed = await ground.claim(node);
      return claimed
        .map(({ id, token }) => ({ id, token }))
        .toSorted((a, b) => ids.indexOf(a.id) - ids.indexOf(b.id));
    },
    end: async (lease, outcome) => {
      const verdicts = await ground.settle([lease], outcome, { data: { message: 'no' } });
      if (verdicts.get(lease.id) === outcome) ends.set(lease.id, outcome);
    },
    add: async ({ id, token }) => {
      const added = randomUUID();
      const jobs = JSON.stringify([{ id: added, task: 'hello' }]);
      await addJobs(ground.database, { id, token }, { jobs, again: false });
      return added;
    },
    advance,
    walkText: () => {
      const { leader, epoch } = ground.leader();
      const read = JSON.stringify({ from: Number.MAX_SAFE_INTEGER, max: 500, walk: firstFlow });
      return `select pgqueue.advance_flows('${leader}', ${epoch}, '${read}')`;
    },
    judge: async () => {
      const rows = await ground.sql(
        `select s.name, s.state, s.outcome, array(select q.id from pgqueue.queue q where q.flow = s.flow and q.step = s.step) as jobs
         from pgqueue.flow_step s where s.flow = $1`,
        [flow],
      );
      const at = (name: string): Step => rows.find((row) => row['name'] === name) as unknown as Step;
      return problemsOf({ pages: at('pages'), sum: at('sum'), mend: at('mend') }, { ours, ends });
    },
  };
}

interface Step {
  readonly state: 'blocked' | 'open' | 'ended';
  readonly outcome: string | null;
  readonly jobs: readonly string[];
}

function problemsOf(
  { pages, sum, mend }: Readonly<Record<'pages' | 'sum' | 'mend', Step>>,
  { ours, ends }: { readonly ours: ReadonlySet<string>; readonly ends: ReadonlyMap<string, 'done' | 'dead'> },
): readonly string[] {
  const over = [...ours].every((id) => ends.has(id));
  const outcome = !over ? null : [...ends.values()].includes('dead') ? 'failed' : 'done';
  const released = [sum, mend].map(({ jobs }) => jobs.length).join();
  const due = { done: '1,0', failed: '0,1', open: '0,0' }[outcome ?? 'open'];
  const foreign = pages.jobs.filter((id) => !ours.has(id));
  return [
    ...foreign.map((id) => `added by an attempt without its lease: ${id}`),
    ...(over && pages.state !== 'ended' ? ['stuck: all jobs have ended, and their step has not'] : []),
    ...(!over && pages.state === 'ended' ? ['early: the step has ended before its jobs'] : []),
    ...(over && pages.state === 'ended' && pages.outcome !== outcome
      ? [`wrong outcome: ${pages.outcome} instead of ${outcome}`]
      : []),
    ...(released === due ? [] : [`released ${released} instead of ${due}`]),
  ];
}
