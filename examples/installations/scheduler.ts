// The scheduler of one installation, named by `DEMO_SELF`. The limit of the vendor is one over all installations.
import { policy } from '@pgqueue/core';
import { sharedLimits } from '@pgqueue/router';
import { createScheduler } from '@pgqueue/scheduler';
import { installations, name } from './environment.ts';
import { onStop, requiredEnv } from '../webhooks/messages.ts';
import { tell } from './messages.ts';
import { callVendor, vendorLimit } from './tasks.ts';

// the demo kills another one
const home = installations.at(-1);
const wanted = requiredEnv('DEMO_SELF');
const self = installations.find((one) => one.name === wanted);
if (home === undefined || self === undefined) throw new Error(`no installation ${wanted}`);
const scheduler = createScheduler({
  connectionString: self.connectionString,
  name,
  policy: policy({
    gates: sharedLimits({
      installations,
      self: self.name,
      home: home.name,
      limits: { vendor: { concurrency: vendorLimit, when: ({ task }) => task === callVendor.name } },
    }),
  }),
});
onStop(() => scheduler.stop());
await scheduler.start();
tell({ kind: 'ready' });
