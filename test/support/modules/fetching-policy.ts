import { fifo, gate, policy as compose } from '@pgqueue/core';

/** Holds whom it is told to, and everybody while it was told nothing. */
export const policy = compose({
  name: 'fetching',
  gates: [
    gate<{ readonly overdrawn: readonly string[] }>({
      name: 'credit',
      prepare: { everyMs: 1_000, deadlineMs: 500, fetch: () => Promise.resolve({ overdrawn: [] }) },
      onError: 'hold',
      admits: ({ key }, _snapshot, fetched) => {
        if (fetched === null) return 'nothing is known';
        return fetched.value.overdrawn.includes(key) ? `${key} is overdrawn` : true;
      },
    }),
  ],
  order: fifo(),
});
