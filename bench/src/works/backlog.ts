import type { BenchOptions } from '../options.ts';
import type { Wish } from '../peers/peer.ts';
import type { Stage } from '../actors/stage.ts';
import { shareOf, warmUp, warmUpOf } from './drain.ts';
import { flow, flowMeasured } from './flow.ts';
import { assemble, fill } from './measure.ts';
import { followsProducer } from './sustain.ts';
import type { Measured, Work } from './work.ts';

const small = 10_000;
const large = 5_000_000;
/**
 * Fraction of `--seconds` that the flow lasts: the rate is steady, and filling the backlog takes long enough.
 */
const share = 1 / 3;

export const backlog: Work = {
  name: 'backlog',
  says: 'Jobs a second while so many wait; a producer beside keeps their number.',
  cases: ({ smoke }) =>
    (smoke
      ? [[500, 'few'] as const]
      : [[small, '10,000 waiting'] as const, [large, '5,000,000 waiting'] as const]
    ).map(([count, name]) => ({
      name,
      takes: followsProducer,
      ...(count === large ? { repeatMax: 1 } : {}),
      run: (stage, options) => behind(stage, options, count),
    })),
};

async function behind(stage: Stage, options: BenchOptions, count: number): Promise<Measured> {
  const wish: Wish = { setting: stage.setting.name };
  const crew = await assemble(stage, wish, 1);
  await warmUp(stage, crew, { wish, jobs: warmUpOf(stage, options) });
  const before = count === large ? Math.ceil(count * shareOf(stage.setting)) : count;
  await fill(crew, wish, { count: before });
  await stage.settle();
  const flowed = await flow(stage, crew, {
    wish,
    seconds: Math.max(1, Math.round(options.seconds * share)),
    lead: before,
    before,
    finish: before < large / 10,
  });
  return flowMeasured(flowed);
}
