import { randomUUID } from 'node:crypto';
import {
  extend,
  promote,
  reap,
  redrive,
  release,
  resetNode,
  saveCheckpoint,
} from '@pgqueue/postgres/internal';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import { dispatchBundles } from '../sql/bundles-support.ts';
import type { Model, ModelJob, State } from './jobs-support.ts';
import {
  absent,
  claimable,
  crash,
  die,
  emptyModel,
  giveBack,
  hasRoom,
  isSafe,
  jobsOf,
  limitTo,
  maxCrashes,
  maxTries,
  put,
  schedule,
  takesBundles,
} from './jobs-support.ts';
import type { Ground, Member } from '../sql/support.ts';
import { openGround } from '../sql/support.ts';

/**
 * Random sequences of everything that changes jobs, against a model of a few lines. After each step the view job must say what the
 * model says of every job, and the invariants must hold.
 */
const jobsMax = 5;

const ground = opened(openGround);
let node: Member;

type Step = fc.AsyncCommand<Model, Ground>;

/**
 * Names of the steps and states so far. The test fails if one never comes: it would prove nothing about it.
 */
const seen = new Set<string>();

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
      await run(model, (model.jobs[index] ??= absent()));
      await agree(model);
    },
    toString: () => `${name}(${index})`,
  };
}

async function agree(model: Model): Promise<void> {
  const known = jobsOf(model);
  for (const { state, cancelled } of known) seen.add(cancelled ? 'told' : state);
  const rows = await ground.sql(
    'select id, status, tries, crashes, cancelled is not null as cancelled, has_checkpoint as kept from pgqueue.job',
  );
  const byId = (a: { readonly id?: unknown }, b: { readonly id?: unknown }): number =>
    String(a.id).localeCompare(String(b.id));
  expect([...rows].sort(byId)).toEqual(
    known
      .map(({ state: status, checkpoint, id, tries, crashes, cancelled }) => {
        return { id, status, tries, crashes, cancelled, kept: checkpoint !== null };
      })
      .sort(byId),
  );
  await ground.sound();
  const twice = await ground.one(
    'select count(*)::integer from (select id from pgqueue.work_item group by id having count(*) > 1) t',
  );
  expect(twice).toBe(0);
}

const lease = ({ id, token }: ModelJob): { id: string; token: string } => ({
  id,
  token: token ?? randomUUID(),
});

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
    step('enqueue', index, ['absent'], async (model, { id }) => {
      model.jobs[index] = undefined;
      const fits = hasRoom(model);
      const inserted = ground.insert({
        id,
        unique_key: `u${index}`,
        max_tries: maxTries,
        max_crashes: maxCrashes,
      });
      if (fits) model.jobs[index] = { ...absent(), id: await inserted };
      else await refused(inserted);
    }),
    step('dispatch', index, ['pending', 'ready', 'running', 'delayed', 'done'], async (model, job) => {
      const scheduled = await ground.dispatch([job.id]);
      expect(scheduled.size).toBe(job.state === 'pending' ? 1 : 0);
      if (job.state === 'pending') schedule(model, [job], false);
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
    step('checkpoint', index, ['running', 'ready', 'done'], async (_model, job) => {
      const [runs, kept] = [job.state === 'running', job.checkpoint === 1 ? null : 1];
      expect(await saveCheckpoint(ground.database, lease(job), JSON.stringify(kept))).toBe(runs);
      if (runs) job.checkpoint = kept;
    }),
    step('release', index, ['running'], async (_model, job) => {
      expect(await release(ground.database, [lease(job)])).toEqual(new Set([job.id]));
      giveBack(job);
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
    step('supersede', index, ['delayed', 'pending', 'ready', 'running'], async (model, job) => {
      const { id } = absent();
      const newer = { n: 0, id, task: 'hello', unique_key: `u${index}`, mode: 'supersede' };
      const limits = { max_tries: maxTries, max_crashes: maxCrashes };
      const enqueued = ground.sql('select job_id, outcome from pgqueue.enqueue_unique($1)', [
        JSON.stringify([{ ...newer, ...limits }]),
      ]);
      const runs = job.state === 'running';
      const others = model.jobs.filter((one) => one !== job || runs);
      if (!hasRoom({ ...model, jobs: others })) return refused(enqueued);
      expect(await enqueued).toEqual([{ job_id: id, outcome: 'superseded' }]);
      if (runs) job.cancelled = true;
      else put(job, 'cancelled');
      model.jobs[index] = { ...absent(), id };
      // behind the jobs that steps act on: a claim or a lost node meets it there
      model.jobs[Math.max(jobsMax, model.jobs.length)] = job;
    }),
    step('redrive', index, ['dead', 'pending', 'done'], async (model, job) => {
      const redriven = redrive(ground.database, [job.id]);
      if (job.state === 'dead' && !hasRoom(model)) return refused(redriven);
      const back = await redriven;
      expect(back.size).toBe(job.state === 'dead' ? 1 : 0);
      if (job.state !== 'dead') return;
      [job.tries, job.crashes] = [0, 0];
      put(job, 'pending');
    }),
  ];
}

/** Checks that an enqueue is refused because its queue is full. */
async function refused(work: Promise<unknown>): Promise<void> {
  seen.add('refused');
  await expect(work).rejects.toMatchObject({ code: 'PQ003' });
}

const claimStep = (max: number): Step => ({
  check: () => true,
  run: async (model) => {
    const token = randomUUID();
    const claimed = await ground.claim(node, max, token);
    const taken = claimable(model, max);
    const told = claimed.map(({ id, bundle, checkpoint }) => ({ id, bundled: bundle !== null, checkpoint }));
    expect(told).toEqual(
      taken.map(({ id, bundle, checkpoint }) => ({ id, bundled: bundle !== null, checkpoint })),
    );
    if (taken.length > max) seen.add('claim-of-bundle');
    for (const job of taken) {
      Object.assign(job, { state: 'running', token });
      if (job.suspect) seen.add('claim-of-suspect');
      if (job.checkpoint !== null) seen.add('claim-with-checkpoint');
    }
    await agree(model);
  },
  toString: () => `claim(${max})`,
});

const bundle = (model: Readonly<Model>): readonly ModelJob[] =>
  jobsOf(model).filter((job) => job.state === 'pending' && isSafe(job));

const coalesce: Step = {
  check: (model) => bundle(model).length > 1,
  run: async (model) => {
    const pending = bundle(model);
    await dispatchBundles(ground.database, [pending.map(({ id }) => id)]);
    schedule(model, pending, true);
    await agree(model);
  },
  toString: () => 'coalesce',
};

const limitStep = (limit: number | null): Step => ({
  check: () => true,
  run: async (model) => {
    await limitTo(ground, limit);
    model.limit = limit;
    await agree(model);
  },
  toString: () => `limit(${limit})`,
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
      die(model);
      node = await ground.node();
      model.takesBundles = !model.takesBundles;
      await takesBundles(ground, model.takesBundles);
      await agree(model);
    },
    toString: () => 'reset',
  },
];

const index = fc.nat(jobsMax - 1);
const names = oneJob(0).map((one) => one.toString().replace('(0)', ''));
const often = (name: string, times: number): readonly fc.Arbitrary<Step>[] =>
  Array.from({ length: times }, () => index.map((at) => oneJob(at)[names.indexOf(name)] as Step));

/**
 * Generators of steps. Steps that advance a job come more often than those that end it; steps not seen yet
 * come most often.
 */
const steps = (unseen: readonly string[]): readonly fc.Arbitrary<Step>[] => [
  ...names.flatMap((name) => often(name, unseen.includes(name) ? 4 : 1)),
  ...often('enqueue', 3),
  ...often('dispatch', 6),
  ...often('checkpoint', 3),
  ...Array.from({ length: 6 }, () => fc.integer({ min: 1, max: 3 }).map(claimStep)),
  ...Array.from({ length: 4 }, () => fc.constantFrom(...allJobs)),
  ...Array.from({ length: 3 }, () => fc.constant(coalesce)),
  fc.constantFrom(null, 1, 2, 3).map(limitStep),
];

test('every job is where the model says, after any sequence of steps', async () => {
  const property = (unseen: readonly string[]) =>
    fc.asyncProperty(fc.commands([...steps(unseen)], { maxCommands: 60, size: 'max' }), async (sequence) => {
      await ground.reset();
      node = await ground.node();
      await takesBundles(ground, true);
      await fc.asyncModelRun(() => ({ model: emptyModel(), real: ground }), sequence);
    });
  const states =
    'delayed pending ready running done cancelled dead told refused claim-of-suspect claim-of-bundle claim-with-checkpoint';
  const all = [...new Set([...names, ...states.split(' ')])].sort();
  // chance may leave out a state or two at first
  for (let round = 0; round < 200; round += 1) {
    const unseen = all.filter((name) => !seen.has(name));
    if (unseen.length === 0 && round >= 10) break;
    // unbiased, because with so few runs most would begin with small values
    await fc.assert(property(unseen), { numRuns: 4, endOnFailure: true, unbiased: true });
  }
  expect([...seen].sort()).toEqual(all);
}, 600_000);
