import { drainBacklog } from './drain.ts';
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
      run: (stage, options) => drainBacklog(stage, options, { processes: 1, keys: count }),
    })),
};
