import { randomUUID } from 'node:crypto';
import { extend, promote, reap, redrive, release, resetNode } from '@pgqueue/postgres';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Ground, Member } from './database-support.ts';
import { openGround } from './database-support.ts';

/**
 * Random sequences of everything that changes jobs, against a model of a few lines. After each step the view job must say what the
 * model says of every job, and the invariants must hold.
 */
const jobsMax = 5;
const maxTries = 2;
const maxCrashes = 2;

type State = 'delayed' | 'pending' | 'ready' | 'running' | 'done' | 'cancelled' | 'dead';

interface ModelJob {
  readonly id: string;
  state: State;
  tries: number;
  crashes: number;
  /** Its place among the ready ones. */
  position: number;
  token: string | undefined;
  cancelled: boolean;
}

interface Model {
  readonly jobs: (ModelJob | undefined)[];
  positions: number;
}

let ground: Ground;
let node: Member;
beforeAll(async () => {
  ground = await openGround();
});
afterAll(() => ground.close());

type Step = fc.AsyncCommand<Model, Ground>;

/** What was done, and what came of it: a test that never got somewhere proves nothing of it. */
const seen = new Set<string>();

const put = (job: ModelJob, state: State): void => {
  job.state = state;
  if (state !== 'running') [job.token, job.cancelled] = [undefined, false];
};
const crash = (job: ModelJob): void => {
  const wasCancelled = job.cancelled;
  job.crashes += 1;
  put(job, wasCancelled ? 'cancelled' : job.crashes >= maxCrashes ? 'dead' : 'ready');
};

/** A step on one job, which acts only where the job stands in one of the given states. */
function step(
  name: string,
  index: number,
  from: readonly (State | 'absent')[],
  run: (model: Model, job: ModelJob) => Promise<void>,
): Step {
  return {
    check: ({ jobs }) => from.includes(jobs[index]?.state ?? 'absent'),
    run: async (model) => {
      seen.add(name);
      await run(model, model.jobs[index] ?? absent(model, index));
      await agree(model);
    },
    toString: () => `${name}(${index})`,
  };
}

function absent(model: Model, index: number): ModelJob {
  const job: ModelJob = {
    id: randomUUID(),
    state: 'pending',
    tries: 0,
    crashes: 0,
    position: 0,
    token: undefined,
    cancelled: false,
  };
  model.jobs[index] = job;
  return job;
}

async function agree({ jobs }: Model): Promise<void> {
  const known = jobs.filter((job) => job !== undefined);
  for (const { state, cancelled } of known) seen.add(cancelled ? 'told' : state);
  const rows = await ground.sql(
    'select id, status, tries, crashes, cancelled is not null as cancelled from pgqueue.job',
  );
  const byId = (a: { readonly id?: unknown }, b: { readonly id?: unknown }): number =>
    String(a.id).localeCompare(String(b.id));
  expect([...rows].sort(byId)).toEqual(
    known
      .map(({ id, state, tries, crashes, cancelled }) => ({ id, status: state, tries, crashes, cancelled }))
      .sort(byId),
  );
  await ground.sound();
  const twice = await ground.one(
    'select count(*)::integer from (select id from pgqueue.work_queue group by id having count(*) > 1) t',
  );
  expect(twice).toBe(0);
}

const lease = ({ id, token }: ModelJob): { id: string; token: string } => ({ id, token: token ?? '' });

const outcomes = ['done', 'retry', 'dead', 'snooze', 'cancelled'] as const;

function settleStep(index: number, outcome: (typeof outcomes)[number]): Step {
  return step(`settle ${outcome}`, index, ['running'], async (_model, job) => {
    const verdicts = await ground.settle([lease(job)], outcome, { delayMs: 0, data: { message: 'x' } });
    const failed = outcome === 'retry' || outcome === 'dead';
    if (failed) job.tries += 1;
    const stopped = job.cancelled && (outcome === 'retry' || outcome === 'snooze');
    const next = {
      done: 'done',
      dead: 'dead',
      cancelled: 'cancelled',
      snooze: 'delayed',
      retry: job.tries >= maxTries ? 'dead' : 'delayed',
    } as const;
    put(job, stopped ? 'cancelled' : next[outcome]);
    const verdict = job.state === 'delayed' ? outcome : job.state;
    expect([...verdicts]).toEqual([[job.id, verdict]]);
  });
}

function oneJob(index: number): Step[] {
  return [
    step('enqueue', index, ['absent'], async (_model, { id }) => {
      await ground.insert({ id, max_tries: maxTries, max_crashes: maxCrashes });
    }),
    step('dispatch', index, ['pending', 'ready', 'running', 'delayed', 'done'], async (model, job) => {
      const scheduled = await ground.dispatch([job.id]);
      expect(scheduled.size).toBe(job.state === 'pending' ? 1 : 0);
      if (job.state !== 'pending') return;
      model.positions += 1;
      job.position = model.positions;
      put(job, 'ready');
    }),
    ...outcomes.map((outcome) => settleStep(index, outcome)),
    step('stale', index, ['running', 'ready', 'done'], async (_model, { id }) => {
      const stale = { id, token: randomUUID() };
      expect((await ground.settle([stale], 'done')).size).toBe(0);
      expect((await release(ground.database, [stale])).size).toBe(0);
      expect((await extend(ground.database, [{ ...stale, ms: 1 }])).size).toBe(0);
    }),
    step('extend', index, ['running'], async (_model, job) => {
      expect((await extend(ground.database, [{ ...lease(job), ms: 60_000 }])).get(job.id)).toEqual({
        cancelled: job.cancelled,
      });
    }),
    step('release', index, ['running'], async (_model, job) => {
      expect(await release(ground.database, [lease(job)])).toEqual(new Set([job.id]));
      put(job, job.cancelled ? 'cancelled' : 'ready');
    }),
    step('expire lease and reap', index, ['running'], async (_model, job) => {
      await ground.sql(`update pgqueue.work_queue set lock_timeout = clock_timestamp() where id = $1`, [
        job.id,
      ]);
      expect(await reap(ground.database)).toBe(1);
      crash(job);
    }),
    step('cancel', index, ['delayed', 'pending', 'ready', 'running', 'dead'], async (_model, job) => {
      const rows = await ground.sql('select verdict from pgqueue.cancel(array[$1::uuid])', [job.id]);
      expect(rows).toEqual(
        job.state === 'dead' ? [] : [{ verdict: job.state === 'running' ? 'signalled' : 'cancelled' }],
      );
      if (job.state === 'running') job.cancelled = true;
      else if (job.state !== 'dead') put(job, 'cancelled');
    }),
    step('redrive', index, ['dead', 'pending', 'done'], async (_model, job) => {
      const back = await redrive(ground.database, [job.id]);
      expect(back.size).toBe(job.state === 'dead' ? 1 : 0);
      if (job.state !== 'dead') return;
      [job.tries, job.crashes] = [0, 0];
      put(job, 'pending');
    }),
  ];
}

/**
 * With two crashes at most, a suspect's next one is its last: it runs alone, and while one waits the node makes room. `briefest`: of those that
 * wait the one that had run for the shortest time, which no model can know.
 */
function claimable(model: Model, briefest: unknown): readonly ModelJob[] {
  const jobs = model.jobs.filter((job) => job !== undefined).sort((a, b) => a.position - b.position);
  const running = jobs.filter(({ state }) => state === 'running');
  const ready = jobs.filter(({ state }) => state === 'ready');
  if (running.some(({ crashes }) => crashes > 0)) return [];
  const suspects = ready.filter(({ crashes }) => crashes > 0);
  const suspect = suspects.find(({ id }) => suspects.length === 1 || id === briefest);
  if (suspect === undefined) return ready;
  return running.length === 0 ? [suspect] : [];
}

const claimStep = (max: number): Step => ({
  check: () => true,
  run: async (model) => {
    const token = randomUUID();
    const [briefest] = await ground.sql(
      'select id from pgqueue.work_queue where suspect and lock_key is null order by ran_ms, position limit 1',
    );
    const claimed = await ground.claim(node, max, token);
    const taken = claimable(model, briefest?.['id']).slice(0, max);
    expect(claimed.map(({ id }) => id)).toEqual(taken.map(({ id }) => id));
    for (const job of taken) {
      Object.assign(job, { state: 'running', token });
      if (job.crashes > 0) seen.add('claim of a suspect');
    }
    await agree(model);
  },
  toString: () => `claim(${max})`,
});

const allJobs: readonly Step[] = [
  {
    check: () => true,
    run: async (model) => {
      await promote(ground.database, ground.leader(), 100);
      for (const job of model.jobs) if (job?.state === 'delayed') put(job, 'pending');
      await agree(model);
    },
    toString: () => 'promote',
  },
  {
    check: () => true,
    run: async (model) => {
      await resetNode(ground.database, node.id);
      for (const job of model.jobs) if (job?.state === 'running') crash(job);
      node = await ground.node();
      await agree(model);
    },
    toString: () => 'reset',
  },
];

test('every job is where the model says, after any sequence of steps', async () => {
  const index = fc.nat(jobsMax - 1);
  // what leads a job on comes more often than what ends it
  const arbitraries = [
    ...oneJob(0).map((_step, kind) => index.map((at) => oneJob(at)[kind] as Step)),
    ...Array.from({ length: 3 }, () => index.map((at) => oneJob(at)[0] as Step)),
    ...Array.from({ length: 6 }, () => index.map((at) => oneJob(at)[1] as Step)),
    ...Array.from({ length: 5 }, () => fc.integer({ min: 1, max: 3 }).map(claimStep)),
    ...Array.from({ length: 4 }, () => fc.constantFrom(...allJobs)),
  ];
  const property = fc.asyncProperty(
    fc.commands(arbitraries, { maxCommands: 60, size: '+1' }),
    async (steps) => {
      await ground.reset();
      node = await ground.node();
      await fc.asyncModelRun(() => ({ model: { jobs: [], positions: 0 }, real: ground }), steps);
    },
  );
  const names = oneJob(0).map((one) => one.toString().replace('(0)', ''));
  const states = [
    'delayed',
    'pending',
    'ready',
    'running',
    'done',
    'cancelled',
    'dead',
    'told',
    'claim of a suspect',
  ];
  const all = [...new Set([...names, ...states])].sort();
  // chance may leave out a state or two at first
  for (let round = 0; round < 4 && seen.size < all.length; round += 1) {
    await fc.assert(property, { numRuns: 80, endOnFailure: true, interruptAfterTimeLimit: 15_000 });
  }
  expect([...seen].sort()).toEqual(all);
}, 90_000);
