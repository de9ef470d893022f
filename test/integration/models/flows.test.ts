import fc from 'fast-check';
import { expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import { emptying, flowTables } from '../../support/empty.ts';
import type { Ground, Member } from '../sql/support.ts';
import { openGround } from '../sql/support.ts';
import type { Pick } from './flows-acts.ts';
import { acts } from './flows-acts.ts';
import type { Model } from './flows-support.ts';

/**
 * Random sequences of everything that concerns flows, against a model that has no counts. After each step every step of a flow, and
 * every job of it, must stand where the model says.
 */
const ground = opened(openGround);
let node: Member;

/**
 * Names of the steps and results so far. The test fails if one never comes: it would prove nothing about it.
 */
const seen = new Set<string>();

/** Operations since the beginning, for the message of a failure. */
const trail: string[] = [];

type Step = fc.AsyncCommand<Model, Ground>;
/** @param drawn numbers that chance has drawn for it: which of its choices it takes */
function step(name: string, drawn: readonly number[]): Step {
  return {
    check: () => true,
    run: async (model) => {
      let next = 0;
      const pick: Pick = (from) => from[(drawn[next++ % drawn.length] ?? 0) % Math.max(1, from.length)];
      try {
        const done = await acts[name]?.[1](model, { ground, node, pick, seen });
        if (done === undefined) return;
        seen.add(done);
        trail.push(done);
        await agree(model);
      } catch (error) {
        const flows = model.flows.map((flow) => JSON.stringify(flow));
        throw new Error([...trail, `${name}: ${String(error)}`, ...flows].join('\n'), { cause: error });
      }
    },
    toString: () => `${name}(${drawn.join(', ')})`,
  };
}

async function agree({ flows }: Model): Promise<void> {
  const known = flows.toSorted((a, b) => a.id.localeCompare(b.id));
  const steps = await ground.sql(
    `select f.id, f.state as flow, array_agg(coalesce(s.outcome, s.state) order by s.step) as steps
     from pgqueue.flow f join pgqueue.flow_step s on s.flow = f.id group by f.id order by f.id`,
  );
  expect(steps).toEqual(
    known.map((flow) => ({
      id: flow.id,
      flow: flow.state,
      steps: flow.steps.map(({ outcome, state }) => outcome ?? state),
    })),
  );
  const jobs = await ground.sql(
    `select id, step, status, cancelled is not null as told from pgqueue.job order by id`,
  );
  expect(jobs).toEqual(
    known
      .flatMap((flow) =>
        flow.steps.flatMap((own, index) =>
          own.jobs
            .filter(({ state }) => state !== 'later')
            .map(({ id, state, told }) => ({
              id,
              step: index,
              status: state === 'waiting' ? 'pending' : state,
              told: state === 'running' && told,
            })),
        ),
      )
      .toSorted((a, b) => a.id.localeCompare(b.id)),
  );
  await ground.sound();
}

const names = Object.keys(acts);
const all = [
  'any open',
  'any skipped',
  'flow cancelled',
  'flow done',
  'flow failed',
  'retry of cancelled',
  'retry of done',
  'retry of failed',
  'retry of open',
  'retry nothing',
  'retry stopping',
  'signal skipped',
  'signal signalled',
  'signal repeated',
  'signal ended',
  'timer skipped',
  'timer ended',
  'redrive',
  'fan out',
  'add',
  'stop',
];

test('every step and job of a flow is where the model says, after any sequence of steps', async () => {
  const numbers = fc.array(fc.nat(59), { minLength: 12, maxLength: 24 });
  const steps = names.flatMap((name) =>
    Array.from({ length: acts[name]?.[0] ?? 1 }, () => numbers.map((drawn) => step(name, drawn))),
  );
  const property = fc.asyncProperty(
    fc.commands(steps, { maxCommands: 120, size: 'max' }),
    async (sequence) => {
      trail.length = 0;
      await ground.reset();
      await ground.sql(emptying(flowTables));
      node = await ground.node();
      await fc.asyncModelRun(() => ({ model: { flows: [] }, real: ground }), sequence);
    },
  );
  for (let round = 0; round < 100; round += 1) {
    if (round >= 10 && all.every((name) => seen.has(name))) break;
    // unbiased, because with so few runs most would begin with small values
    await fc.assert(property, { numRuns: 4, endOnFailure: true, unbiased: true });
  }
  expect(all.filter((name) => !seen.has(name))).toEqual([]);
}, 600_000);
