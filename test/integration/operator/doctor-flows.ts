import { expect } from 'vitest';
import { flowsOf } from '../../support/flows/flow-seed.ts';
import type { Seed } from '../../support/seed.ts';

const long = `'2026-01-01T00:00:00Z'`;

type Own = Pick<Seed, 'sql' | 'run'>;
type Breakages = readonly {
  readonly check: string;
  readonly mendable?: boolean;
  readonly seed: () => Promise<readonly string[]>;
  readonly after?: (samples: readonly string[]) => Promise<void>;
}[];

/** Damage to flows, as the doctor's test seeds it. */
export function flowBreakages(own: Own): Breakages {
  return [...stuckFlows(own), ...leftovers(own)];
}

function stuckFlows({ sql, run }: Own): Breakages {
  const { start, advance } = flowsOf({ sql, run });
  const stateOf = async (flow: string): Promise<unknown> =>
    (await sql('select state from pgqueue.flow where id = $1', [flow]))[0]?.state;
  return [
    {
      check: 'idle_steps',
      seed: async () => {
        const flow = await start({
          steps: [
            { name: 'a', jobs: 2 },
            { name: 'b', jobs: 1 },
          ],
        });
        await advance();
        await sql(`update pgqueue.flow_step set opened = ${long}`);
        // a tally is missing
        await sql('delete from pgqueue.queue where flow = $1 and step = 0', [flow]);
        return [`${flow} step 0`];
      },
      after: async () => {
        await advance();
        const steps = await sql('select state, outcome from pgqueue.flow_step order by step');
        expect(steps).toEqual([
          { state: 'ended', outcome: 'done' },
          { state: 'open', outcome: null },
        ]);
      },
    },
    {
      check: 'late_tallies',
      mendable: false,
      seed: async () => {
        const flow = await start({ steps: [{ name: 'a', jobs: 1 }] });
        await advance();
        await start({ steps: [{ name: 'a', jobs: 1 }] });
        await sql(`insert into pgqueue.flow_tally (flow, at) values ($1, ${long}), ($1, ${long})`, [flow]);
        return [flow];
      },
    },
    {
      check: 'endless_flows',
      seed: async () => {
        const flow = await start({ steps: [{ name: 'a', jobs: 1 }] });
        await advance();
        await sql('delete from pgqueue.queue');
        await sql(`update pgqueue.flow_step set state = 'ended', outcome = 'done', ended = now()`);
        return [flow];
      },
      after: async ([flow = '']) => {
        await advance();
        expect(await stateOf(flow)).toBe('done');
      },
    },
  ];
}

function leftovers({ sql, run }: Own): Breakages {
  const { start, jobsOf } = flowsOf({ sql, run });
  return [
    {
      check: 'jobs_of_gone_flows',
      seed: async () => {
        const [gone, kept] = [
          await start({ steps: [{ name: 'a', jobs: 2 }] }),
          await start({ steps: [{ name: 'a', jobs: 1 }] }),
        ];
        const jobs = await jobsOf(gone, 0);
        for (const table of ['flow', 'flow_step', 'flow_tally'])
          await sql(`delete from pgqueue.${table} where ${table === 'flow' ? 'id' : 'flow'} = $1`, [gone]);
        expect(await jobsOf(kept, 0)).toHaveLength(1);
        return jobs;
      },
      after: async (jobs) => {
        const freed = await sql('select id from pgqueue.queue where flow is null and step is null');
        expect(new Set(freed.map(({ id }) => id))).toEqual(new Set(jobs));
        expect(await sql('select from pgqueue.queue where flow is not null')).toHaveLength(1);
      },
    },
    {
      check: 'unreleased_jobs',
      mendable: false,
      seed: async () => {
        const flow = await start({
          steps: [
            { name: 'a', jobs: 1 },
            { name: 'b', jobs: 1, needs: [[0]] },
            { name: 'c', jobs: 1, needs: [[0, 'failed']] },
          ],
        });
        await sql('delete from pgqueue.queue');
        await sql(
          `update pgqueue.flow_step set state = 'ended', outcome = case step when 2 then 'skipped' else 'done' end, ended = now()`,
        );
        await sql(`update pgqueue.flow set state = 'done', ended = now()`);
        return [`${flow} step 1`];
      },
    },
    {
      check: 'rows_of_gone_flows',
      seed: async () => {
        const gone = '00000000-0000-7000-8000-0000000000f0';
        const kept = await start({
          steps: [
            { name: 'a', jobs: 1 },
            { name: 'b', jobs: 1, needs: [[0]] },
          ],
        });
        await sql(
          `insert into pgqueue.flow_result (flow, step, job, outcome) values ($1, 0, $1, 'dead'), ($2, 0, $2, 'dead')`,
          [gone, kept],
        );
        await sql(
          `insert into pgqueue.flow_step (flow, step, name, kind, state, open_needs) values ($1, 0, 'a', 'signal', 'open', 0)`,
          [gone],
        );
        return ['flow_result', 'flow_step'].map((table) => `${gone} in ${table}`);
      },
      after: async () => {
        for (const table of ['flow_result', 'flow_step'])
          expect(await sql(`select from pgqueue.${table}`)).not.toEqual([]);
      },
    },
  ];
}
