// A worker process of the proof: it works for all installations, with slots that they share.
import { setTimeout as delay } from 'node:timers/promises';
import { implement } from '@pgqueue/core';
import type { Installation } from '@pgqueue/router';
import { createRouter } from '@pgqueue/router';
import { actorName, actorOptions, run } from '../../../support/actors/messages.ts';
import { step } from './tasks.ts';

const { installations } = actorOptions as { readonly installations: readonly Installation[] };
const router = createRouter({ installations });
const worker = router.worker({
  node: actorName,
  concurrency: 10,
  heartbeatMs: 300,
  lostAfterMs: 1_500,
  queryTimeoutMs: 5_000,
  tasks: [
    implement(step, async ({ ms, fails }, { job, signal }) => {
      if (ms > 0) await delay(ms, undefined, { signal });
      if (job.tries < fails) throw new Error(`fails ${fails} times`);
    }),
  ],
});
await run({
  start: () => worker.start(),
  stop: async () => {
    await worker.stop({ drainMs: 1_000 });
    await router.close();
  },
});
