import type fc from 'fast-check';
import type { Gate } from '../policy/gate.ts';
import type { Order } from '../policy/order.ts';
import { fifo } from '../policy/orders/ranked.ts';
import type { Candidate, Snapshot } from '../policy/snapshot.ts';
import { lanesOf, snapshots } from './snapshots.ts';

/** Selects the jobs that a gate breaks on: always the same ones. */
export const breaksOn = ({ seq }: Candidate): boolean => seq % 3 === 1;
export const faulty = (onError: 'hold' | 'ignore'): Gate => ({
  name: 'faulty',
  onError,
  open: () => ({
    admits: (job) => {
      if (breaksOn(job)) throw new Error('no idea');
      return 'admit';
    },
    why: () => ({ message: '', untilMs: null }),
  }),
});

/** Holds the same jobs, without breaking. */
export const holding: Gate = {
  name: 'faulty',
  open: () => ({
    admits: (job) => (breaksOn(job) ? 'hold' : 'admit'),
    why: () => ({ message: '', untilMs: null }),
  }),
};

/** Many jobs in few lanes, without limits: for tests of bundles. */
export const crowded: fc.Arbitrary<Snapshot> = snapshots.map((snapshot): Snapshot => {
  const jobs = snapshot.lanes.flatMap((lane) => lane.jobs);
  const gathered = jobs.map((job) => ({
    ...job,
    queue: 'default',
    key: job.key > 'a' ? 'b' : 'a',
    version: 1,
  }));
  return { ...snapshot, lanes: lanesOf(gathered), queues: {}, inFlight: [] };
});

/** Makes a FIFO order whose function `where` throws once it was called `after` times in a plan. */
export function breaking(where: 'next' | 'taken' | 'passed' | 'open' | 'state', after: number): Order {
  let calls = 0;
  const count = (name: string): void => {
    if (name === where && (calls += 1) > after) throw new Error(`broken in ${where}`);
  };
  return {
    ...fifo(),
    name: 'breaking',
    open: (snapshot, state, heads) => {
      calls = 0;
      count('open');
      const open = fifo().open(snapshot, state, heads);
      return {
        next: () => {
          count('next');
          return open.next();
        },
        taken: (lane, job) => {
          count('taken');
          open.taken(lane, job);
        },
        passed: (lane, job) => {
          count('passed');
          open.passed(lane, job);
        },
        state: () => {
          count('state');
          return null;
        },
      };
    },
  };
}
