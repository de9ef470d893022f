// One of three worker nodes. Each works for all installations, with slots that they share.
import { setTimeout as delay } from 'node:timers/promises';
import { implement } from '@pgqueue/core';
import { createRouter } from '@pgqueue/router';
import { installations, name } from './environment.ts';
import { onStop } from '../webhooks/messages.ts';
import { now, tell } from './messages.ts';
import { callVendor } from './tasks.ts';

const router = createRouter({ installations });
const worker = router.worker({
  node: name,
  concurrency: 10,
  tasks: [
    implement(callVendor, async ({ tenant }, { signal }) => {
      const beganAt = now();
      await delay(10 + Math.random() * 20, undefined, { signal });
      tell({ kind: 'called', tenant, beganAt, endedAt: now() });
    }),
  ],
});
onStop(async () => {
  await worker.stop();
  await router.close();
});
await worker.start();
tell({ kind: 'ready' });
