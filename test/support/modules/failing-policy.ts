import { concurrency, gate, policy } from '@pgqueue/core';
import type { Policy } from '@pgqueue/core';

/**
 * A policy with users' mistakes: a gate that throws and lets jobs go, and a limit that throws and holds them.
 */
const failing: Policy = policy({
  name: 'failing',
  gates: [
    gate({
      name: 'odd',
      admits: ({ id }) => {
        throw new Error(`no region of job ${id}`);
      },
    }),
    concurrency({
      name: 'tenant',
      by: ({ key }) => {
        if (key === 'small') throw new Error('no tenant');
        return key;
      },
      limit: 5,
    }),
  ],
});

export { failing as policy };
