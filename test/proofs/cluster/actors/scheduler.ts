// A scheduler process of the proof, with limits over all installations.
import { policy } from '@pgqueue/core';
import type { Installation } from '@pgqueue/router';
import { sharedLimits } from '@pgqueue/router';
import { createScheduler } from '@pgqueue/scheduler';
import { actorName, actorOptions, run, url } from '../../../support/actors/messages.ts';
import { limits } from './limits.ts';

const { installations, self } = actorOptions as {
  readonly installations: readonly Installation[];
  readonly self: string;
};
const of =
  (wanted: string) =>
  ({ queue }: { readonly queue: string }): boolean =>
    queue === wanted;
const scheduler = createScheduler({
  connectionString: url,
  name: actorName,
  leaseMs: 1_000,
  queryTimeoutMs: 5_000,
  policy: policy({
    gates: sharedLimits({
      installations,
      self,
      home: installations[0]?.name ?? '',
      limits: {
        calls: { concurrency: limits.calls, when: of('calls'), lane: true },
        mails: { rate: limits.mails, when: of('mails'), lane: true },
      },
    }),
  }),
});
await run(scheduler);
