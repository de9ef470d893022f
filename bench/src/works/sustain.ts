import type { BenchOptions } from '../options.ts';
import type { Wish } from '../peers/peer.ts';
import { withClient } from '../peers/sql.ts';
import type { Stage } from '../actors/stage.ts';
import { warmUp, warmUpOf } from './drain.ts';
import { flow, flowMeasured } from './flow.ts';
import { assemble } from './measure.ts';
import type { Case, Measured, Work } from './work.ts';

/**
 * Jobs the producer may be ahead of the workers: enough that the workers never wait, and few compared with
 * what they run in a second.
 */
const lead = 20_000;

export const sustain: Work = {
  name: 'sustain',
  says: 'One worker process, and a producer process beside it that keeps some 20,000 jobs waiting: jobs a second over time. Early and late: the first and last ten seconds; from three minutes on, the second and the last minute.',
  cases: () => [{ name: 'a producer beside', run: sustained, takes: followsProducer }],
};

export const pinned: Work = {
  name: 'pinned',
  says: 'The same while another session keeps a snapshot open, so that vacuum can clear nothing away.',
  cases: () => [
    {
      name: 'a snapshot held',
      takes: (peer, setting) => peer.store === 'postgres' && followsProducer(peer, setting),
      run: (stage, options) =>
        withClient(stage.place.databaseUrl, async (client) => {
          await client.query('begin isolation level repeatable read');
          await client.query('select pg_current_xact_id()');
          return sustained(stage, options);
        }),
    },
  ],
};

/**
 * Reports whether a setting can follow a producer. README settings cannot: the jobs waiting after a minute
 * would take them an hour.
 */
export const followsProducer: NonNullable<Case['takes']> = (_peer, { readme }) => readme !== true;

async function sustained(stage: Stage, options: BenchOptions): Promise<Measured> {
  const wish: Wish = { setting: stage.setting.name };
  const crew = await assemble(stage, wish, 1);
  await warmUp(stage, crew, { wish, jobs: warmUpOf(stage, options) });
  await stage.settle();
  const flowed = await flow(stage, crew, {
    wish,
    seconds: options.seconds,
    lead: Math.min(lead, options.jobs),
    before: 0,
    finish: true,
  });
  return flowMeasured(flowed);
}
