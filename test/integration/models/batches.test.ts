import fc from 'fast-check';
import { expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import type { Pick } from './batches-acts.ts';
import { acts } from './batches-acts.ts';
import type { Model } from './batches-support.ts';
import type { Ground, Member } from '../sql/support.ts';
import { openGround } from '../sql/support.ts';

/**
 * Random sequences of everything that concerns batches, against a model of a few lines. After each step WORK_QUEUE must have the rows that the model
 * has, in the same places and with the same leases, and every job must stand where the model says.
 */
const ground = opened(openGround);
const nodes = new Map<string, Member>();

/**
 * Names of the steps and results so far. The test fails if one never comes: it would prove nothing about it.
 */
const seen = new Set<string>();

type Step = fc.AsyncCommand<Model, Ground>;
/** @param drawn numbers that chance has drawn for it: which of its choices it takes */
function step(name: string, drawn: readonly number[]): Step {
  return {
    check: () => true,
    run: async (model) => {
      let next = 0;
      const pick: Pick = (from) => from[(drawn[next++ % drawn.length] ?? 0) % Math.max(1, from.length)];
      const done = await acts[name]?.[1](model, { ground, nodes, pick, seen });
      if (done === undefined) return;
      seen.add(done);
      await agree(model);
    },
    toString: () => `${name}(${drawn.join(', ')})`,
  };
}

async function agree(model: Model): Promise<void> {
  const [rows] = await ground.sql(
    `select coalesce((select jsonb_agg(jsonb_build_array(w.position, to_jsonb(coalesce(w.jobs, array[w.id])), w.jobs is not null, w.lock_key,
              w.lock_token, w.suspect, w.cancelled is not null) order by w.position) from pgqueue.work_queue w), '[]') as items,
       (select jsonb_object_agg(s.id, jsonb_build_array(s.state, s.tries, s.crashes)) from (
          select id, case when run_after is null then 'waiting' else 'delayed' end as state, tries, crashes from pgqueue.queue
          union all select id, outcome, tries, crashes from pgqueue.history
          union all select id, 'dead', tries, crashes from pgqueue.dead_letter) s) as jobs,
       (select count(*)::integer from pgqueue.queue) + (select count(*)::integer from pgqueue.history)
         + (select count(*)::integer from pgqueue.dead_letter) as all`,
  );
  expect(rows?.['items']).toEqual(
    model.items.map(({ position, jobs, batch, node, token, suspect, told }) => [
      position,
      jobs.map(({ id }) => id),
      batch,
      node,
      token,
      suspect,
      told,
    ]),
  );
  expect(rows?.['all']).toBe(model.jobs.length);
  expect(rows?.['jobs'] ?? {}).toEqual(
    Object.fromEntries(model.jobs.map(({ id, state, tries, crashes }) => [id, [state, tries, crashes]])),
  );
}

/** Two batches, held by one node; one job is taken out of one of them. By chance alone that comes late. */
const beginning: readonly Step[] = [
  step('enqueue', [4]),
  step('dispatch', [0]),
  step('claim', [0, 1, 0]),
  step('takeSome', [0]),
];

const drawn = fc.array(fc.nat(1_000), { minLength: 8, maxLength: 8 });
/** Generators of steps; those not seen yet come more often. */
const steps = (unseen: readonly string[]): readonly fc.Arbitrary<Step>[] =>
  Object.entries(acts).flatMap(([name, [often, , does = name]]) => {
    const more = unseen.some((one) => one.includes(does)) ? 8 : 0;
    return Array.from({ length: often + more }, () => drawn.map((numbers) => step(name, numbers)));
  });

/** Names that must all have been seen. */
const all: readonly string[] = `enqueue, promote, heartbeat, dispatch, dispatch of what is there,
  claim, claim of rows, claim ahead, claim of a suspect,
  settle held batch, settle held rest, settle refused, settle of a member, settle done, settle retry, settle snooze, settle dead,
  take out of held batch, take out all of held rest, take out refused, take apart,
  release of rows, release refused, release from a held batch, release from a held job,
  extend of a held batch, extend of a held job, extend of a ready batch,
  cancel of a held batch, cancel of a held rest, cancel of a ready batch, take back, take back refused,
  reap of a held batch, reset with a batch, lose with a batch, leave with a batch, give a claim back with a batch`.split(
  /,\s+/,
);

test('every work item is what the model says, after any sequence of steps', async () => {
  const property = (unseen: readonly string[]) =>
    fc.asyncProperty(
      fc.nat(beginning.length),
      fc.commands([...steps(unseen)], { maxCommands: 60, size: 'max' }),
      async (begun, sequence) => {
        await ground.reset();
        nodes.clear();
        for (const id of ['a', 'b']) nodes.set(id, await ground.node(id));
        const model: Model = { jobs: [], items: [] };
        for (const one of beginning.slice(0, begun)) await one.run(model, ground);
        await fc.asyncModelRun(() => ({ model, real: ground }), sequence);
        await ground.sound();
        const mixed = await ground.one(
          `select count(*)::integer from pgqueue.history where outcome = 'done' and result #>> '{}' <> id::text`,
        );
        expect(mixed).toBe(0);
      },
    );
  for (let round = 0; round < 200; round += 1) {
    const unseen = all.filter((name) => !seen.has(name));
    if (unseen.length === 0 && round >= 6) break;
    await fc.assert(property(unseen), { numRuns: 3, endOnFailure: true, unbiased: true });
  }
  expect(all.filter((name) => !seen.has(name))).toEqual([]);
}, 600_000);
