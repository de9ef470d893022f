import { concurrency, fairShare, policy, rate, turns } from '@pgqueue/core';
import type { Policy } from '@pgqueue/core';
import { limitOfProof, rateOfProof } from './config.ts';

/** The time of workers, by tenant; B has so much more than the others. */
function timeShares(weight: number): Policy {
  const tenants = {
    name: 'tenant',
    by: ({ attributes }: { readonly attributes: Readonly<Record<string, unknown>> }) =>
      String(attributes['tenant']),
    weight: (tenant: string): number => (tenant === 'b' ? weight : 1),
  };
  return policy({ order: fairShare({ levels: [tenants], charge: 'time' }) });
}

/** The policies that proofs name: processes can be told names only. */
export const policies: Readonly<Record<string, () => Policy>> = {
  turns: () => policy({ order: turns() }),
  fair: () => policy({ order: fairShare() }),
  'fair-time-1': () => timeShares(1),
  'fair-time-3': () => timeShares(3),
  'limit-tenant': () =>
    policy({
      gates: [
        concurrency({ name: 'tenant', by: ({ attributes }) => attributes['tenant'], limit: limitOfProof }),
      ],
      order: fairShare(),
    }),
  rate: () => policy({ gates: [rate({ name: 'api', ...rateOfProof })], order: fairShare() }),
};
