import { defineTask } from '@pgqueue/core';
import type { NewJob } from '@pgqueue/core';
import { z } from 'zod';
import type { JobSpec } from '../workload.ts';
import { leaseMs } from '../workload.ts';

const payload = z.object({ n: z.int(), ms: z.number(), fails: z.int(), tenant: z.string(), pad: z.string() });

/** Faults are not the jobs' own: only those of poison have the usual limit of crashes. */
const patient = { maxTries: 4, maxCrashes: 1_000, backoff: 'fixed', base: '200ms', jitter: 0.5 } as const;
const attributes = ({ tenant }: { readonly tenant: string }): { readonly tenant: string } => ({ tenant });
const timeout = `${leaseMs}ms`;

export const short = defineTask({ name: 'short', payload, attributes, timeout, retry: patient });
export const medium = defineTask({
  name: 'medium',
  payload,
  attributes,
  timeout: `${leaseMs * 2}ms`,
  retry: patient,
});
/** Takes longer than three leases, and extends its own. */
export const long = defineTask({ name: 'long', payload, attributes, timeout, retry: patient });
/** Writes one row in `ctx.transaction`. */
export const effect = defineTask({ name: 'effect', payload, attributes, timeout, retry: patient });
/** Kills its process. */
export const poison = defineTask({
  name: 'poison',
  payload,
  attributes,
  timeout,
  retry: { ...patient, maxCrashes: 3 },
});

const tasks = { short, medium, long, effect, poison };

export function jobOf(spec: JobSpec): NewJob {
  const { id, kind, n, ms, fails, tenant, pad, queue, key } = spec;
  return tasks[kind].job({ n, ms, fails, tenant, pad: 'x'.repeat(pad) }, { id, queue, key });
}
