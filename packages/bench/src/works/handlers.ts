import type { Handling } from '../actors/orders.ts';
import type { Wish } from '../peers/peer.ts';
import { drained, limitsOf, warmUp, warmUpOf } from './drain.ts';
import { assemble, fill } from './measure.ts';
import type { Case, Work } from './work.ts';

const processes = 4;
const slots = 50;

export const handlers: Work = {
  name: 'handlers',
  says: `A backlog of jobs whose handlers wait, drained by ${processes} worker processes that run ${slots} jobs at a time each; share: of what so many slots can do if nothing but the handlers takes time.`,
  cases: ({ smoke }) =>
    [1, 10].map((ms): Case => ({
      name: `${ms} ms`,
      takes: (peer, setting) => setting.readme !== true && peer.name !== 'table',
      run: async (stage, options) => {
        const wish: Wish = { setting: stage.setting.name, concurrency: slots };
        const handling: Handling = { kind: 'sleep', ms };
        const crew = await assemble(stage, wish, smoke ? 2 : processes);
        const { jobs, ms: timeoutMs } = limitsOf(stage.setting, options);
        await warmUp(stage, crew, { wish, jobs: warmUpOf(stage, options), handling });
        await fill(crew, wish, { count: jobs });
        await stage.settle();
        const { metrics, faults } = await drained(stage, crew, { wish, jobs, ms: timeoutMs, handling });
        const most = (crew.workers.length * slots * 1_000) / ms;
        return { metrics: { ...metrics, share: (metrics['jobsPerSecond'] ?? NaN) / most }, faults };
      },
    })),
};
