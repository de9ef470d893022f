// A scheduler process. Its options are what the test tells it; `policies` is a module that exports them by name, `policy` one of the names.
import type { Policy } from '@pgqueue/core';
import { createScheduler } from '@pgqueue/scheduler';
import { actorName, actorOptions, run, telling, url } from './messages.ts';

const { policies, policy, tells, ...options } = actorOptions as {
  readonly policies?: string;
  readonly policy?: string;
  /** Types of events. */
  readonly tells?: readonly string[];
};

async function policyOf(module: string, name: string): Promise<Policy> {
  const { policies } = (await import(module)) as {
    readonly policies: Readonly<Record<string, () => Policy>>;
  };
  const make = policies[name];
  if (make === undefined) throw new Error(`no policy ${name}: ${Object.keys(policies).join(', ')}`);
  return make();
}

const scheduler = createScheduler({
  connectionString: url,
  name: actorName,
  leaseMs: 2_000,
  ...options,
  ...(policy === undefined ? {} : { policy: await policyOf(policies ?? '', policy) }),
  observe: telling('leader.elected', 'leader.lost', 'policy.failed', ...(tells ?? [])),
});
await run(scheduler);
