// A worker of several installations whose handlers do nothing.
import { implement } from '@pgqueue/core';
import type { Installation } from '@pgqueue/router';
import { createRouter } from '@pgqueue/router';
import { actorOptions, run } from '../support/actors/messages.ts';
import { nothing } from './routed-task.ts';

const { installations } = actorOptions as { readonly installations: readonly Installation[] };
const router = createRouter({ installations });
const worker = router.worker({ concurrency: 50, tasks: [implement(nothing, () => {})] });
await run({
  start: () => worker.start(),
  stop: async () => {
    await worker.stop();
    await router.close();
  },
});
