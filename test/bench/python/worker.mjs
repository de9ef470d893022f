// The TypeScript worker of `npm run bench:python`, over the built packages: its handler does nothing.
import { defineTask, implement } from '@pgqueue/core';
import { createWorker, stopOnSignals } from '@pgqueue/worker';

/** @type {import('@standard-schema/spec').StandardSchemaV1<object>} */
const payload = {
  '~standard': {
    version: 1,
    vendor: 'bench',
    validate: (value) => ({ value: /** @type {object} */ (value) }),
  },
};
const nothing = () => {};
const worker = createWorker({
  connectionString: process.env['PGQUEUE_TEST_URL'] ?? '',
  tasks: ['bench', 'bench-async'].map((name) => implement(defineTask({ name, payload }), nothing)),
});
stopOnSignals(worker);
await worker.start();
