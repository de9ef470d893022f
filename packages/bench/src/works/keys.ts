import type { Wish } from '../peers/peer.ts';
import { drained, limitsOf, warmUp, warmUpOf } from './drain.ts';
import { assemble, fill } from './measure.ts';
import type { Case, Work } from './work.ts';

const counts = [1, 100, 10_000];

export const keys: Work = {
  name: 'keys',
  says: 'A backlog of jobs that belong to so many keys, drained by one worker process.',
  cases: ({ smoke }) =>
    (smoke ? [20] : counts).map((count): Case => ({
      name: count === 1 ? '1 key' : `${count.toLocaleString('en-US')} keys`,
      // the other peers have no keys, or run the jobs of one key one at a time
      takes: (peer) => peer.name === 'pgqueue',
      run: async (stage, options) => {
        const wish: Wish = { setting: stage.setting.name };
        const crew = await assemble(stage, wish, 1);
        const { jobs, ms } = limitsOf(stage.setting, options);
        await warmUp(stage, crew, { wish, jobs: warmUpOf(stage, options) });
        await fill(crew, wish, { count: jobs, keys: count });
        await stage.settle();
        return drained(stage, crew, { wish, jobs, ms });
      },
    })),
};
