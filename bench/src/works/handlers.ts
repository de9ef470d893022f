import { drainBacklog } from './drain.ts';
import type { Case, Work } from './work.ts';

const most = 4;
const slots = 50;

export const handlers: Work = {
  name: 'handlers',
  says: `A backlog of jobs whose handlers wait, drained by ${most} worker processes that run ${slots} jobs at a time each; share: of what so many slots can do if nothing but the handlers takes time.`,
  cases: ({ smoke }) =>
    [1, 10].map((ms): Case => ({
      name: `${ms} ms`,
      takes: (peer, setting) => setting.readme !== true && peer.name !== 'table',
      run: async (stage, options) => {
        const processes = smoke ? 2 : most;
        const backlog = { processes, concurrency: slots, handling: { kind: 'sleep', ms } } as const;
        const { metrics, faults } = await drainBacklog(stage, options, backlog);
        const { jobsPerSecond = NaN } = metrics;
        return { metrics: { ...metrics, share: (jobsPerSecond * ms) / (processes * slots * 1_000) }, faults };
      },
    })),
};
