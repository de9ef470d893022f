import type { JobOptions } from '@pgqueue/core';
import { defineTask, flow, implement } from '@pgqueue/core';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import { createWorker } from '@pgqueue/worker';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { opened, useDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';

const own = useDatabase({ each: true });
const producer = opened(() => createProducer({ connectionString: own.url }), { each: true });

const send = defineTask({ name: 'send', payload: z.object({ to: z.string() }) });
const first = defineTask({ name: 'first', payload: z.object({}) });
const rich: JobOptions = {
  queue: 'mail',
  key: 'acme',
  priority: 7,
  attributes: { plan: 'free', size: 3 },
  expiresAt: new Date('2999-01-01T00:00:00Z'),
  timeout: '90s',
  retry: { maxTries: 4, maxCrashes: 5, backoff: 'linear', base: 10 },
};

test.each([
  ['nothing is given', {}],
  ['everything is given', rich],
])(
  'a job has the same row alone, with a unique key, and in a step that is open or released: %s',
  async (_, options: JobOptions) => {
    await producer.enqueue(send, { to: 'alone' }, options);
    await producer.enqueue(send, { to: 'unique' }, { ...options, uniqueKey: 'one' });
    await producer.start(flow('open').step('s', send.job({ to: 'open' }, options)));
    await producer.start(
      flow('later')
        .step('first', first.job({}))
        .step('s', send.job({ to: 'later' }, options), { needs: ['first'] }),
    );
    const scheduler = createScheduler({ connectionString: own.url });
    const worker = createWorker({ connectionString: own.url, tasks: [implement(first, () => undefined)] });
    await Promise.all([scheduler.start(), worker.start()]);
    const rows = (): Promise<readonly Record<string, unknown>[]> =>
      own.sql(`select payload ->> 'to' as "to", queue, key, priority, attributes, run_after, expires_at, timeout::text, max_tries, max_crashes, retry,
                    payload_version, trace, tries, crashes
             from pgqueue.queue where task = 'send' order by seq`);
    try {
      await until('the last to be released', async () => (await rows()).length === 4);
      const [alone, ...others] = (await rows()).map(({ to, ...row }) => [to, row]);
      expect(alone?.[0]).toBe('alone');
      expect(others).toEqual(['unique', 'open', 'later'].map((to) => [to, alone?.[1]]));
    } finally {
      await worker.stop();
      await scheduler.stop();
    }
  },
);
