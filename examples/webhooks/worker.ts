// One of three worker nodes.
import { createWorker } from '@pgqueue/worker';
import { catalogueHandlers } from './catalogue.ts';
import { handleWebhook } from './handlers.ts';
import { onStop, requiredEnv, tell, tellEvent } from './messages.ts';

const worker = createWorker({
  connectionString: requiredEnv('DEMO_DATABASE_URL'),
  node: requiredEnv('DEMO_NAME'),
  tasks: [handleWebhook, ...catalogueHandlers],
  concurrency: 10,
  observe: tellEvent,
});
onStop(() => worker.stop());
await worker.start();
tell({ kind: 'ready', detail: worker.node });
