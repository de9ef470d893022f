import { concurrency, policy, rate, turns } from '@pgqueue/core';
import type { Policy } from '@pgqueue/core';
import { limitOfProof, rateOfProof } from './config.ts';

/** The policies that proofs name: processes can be told names only. */
const policies: Readonly<Record<string, () => Policy>> = {
  turns: () => policy({ order: turns() }),
  'limit-tenant': () =>
    policy({
      gates: [
        concurrency({ name: 'tenant', by: ({ attributes }) => attributes['tenant'], limit: limitOfProof }),
      ],
      order: turns(),
    }),
  rate: () => policy({ gates: [rate({ name: 'api', ...rateOfProof })], order: turns() }),
};

export function proofPolicy(name: string): Policy {
  const make = policies[name];
  if (make === undefined) throw new Error(`no policy ${name}: ${Object.keys(policies).join(', ')}`);
  return make();
}
