// npm run bench:encryption -- [--jobs 40000] [--rounds 7]
// Measures what encryption costs: drains of jobs that do nothing, by one process with a scheduler and a worker: plain,
// encrypted by node:crypto and by libsodium in turn, on one server. Prints the medians of the ratios of each round. A
// payload has some 100 bytes.
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Codec } from '@pgqueue/core';
import { defineTask, implement } from '@pgqueue/core';
import { encrypted, migrate } from '@pgqueue/postgres';
import { createProducer } from '@pgqueue/producer';
import { createScheduler } from '@pgqueue/scheduler';
import { createWorker } from '@pgqueue/worker';
import sodium from 'sodium-native';
import { z } from 'zod';
import { startEmbedded } from '../../packages/postgres/src/testing/server-local.ts';
import { until } from '../support/until.ts';

const { values } = parseArgs({
  options: { jobs: { type: 'string', default: '40000' }, rounds: { type: 'string', default: '7' } },
});
const [jobs, rounds] = [Number(values.jobs), Number(values.rounds)];
if (!(Number.isInteger(jobs) && jobs >= 1_000 && jobs <= 1_000_000))
  throw new Error('--jobs must be 1000 to 1000000');
if (!(Number.isInteger(rounds) && rounds >= 1 && rounds <= 100)) throw new Error('--rounds must be 1 to 100');

const secret = { keys: [{ id: 'bench', key: randomBytes(32) }], plain: 'refuse' } as const;
const codecs = { 'node:crypto': encrypted(secret), 'sodium-native': encrypted({ ...secret, sodium }) };
const payload = z.object({ n: z.number(), pad: z.string() });
const silent = defineTask({ name: 'silent', payload });
const telling = defineTask({ name: 'telling', payload, result: z.string() });
const pad = 'x'.repeat(80);

interface Kind {
  readonly task: typeof silent | typeof telling;
  readonly codec: Codec | undefined;
}

let schemas = 0;

/** Jobs a second; those of enqueues and of the drain. */
async function run(connectionString: string, { task, codec: own }: Kind): Promise<readonly [number, number]> {
  const schema = `bench_${(schemas += 1)}`;
  await migrate({ connectionString, schema });
  const common = { connectionString, schema, ...(own === undefined ? {} : { codec: own }) };
  const producer = createProducer({ ...common, notify: false });
  const enqueuedAt = performance.now();
  for (let from = 0; from < jobs; from += 1_000)
    await producer.enqueueMany(Array.from({ length: 1_000 }, (_, n) => task.job({ n: from + n, pad })));
  const perSecond = (1_000 * jobs) / (performance.now() - enqueuedAt);
  await producer.close();
  let ran = 0;
  const handlers = [implement(silent, () => void (ran += 1)), implement(telling, () => ((ran += 1), pad))];
  const scheduler = createScheduler({ connectionString, schema });
  const worker = createWorker({ ...common, tasks: handlers });
  const began = performance.now();
  await Promise.all([scheduler.start(), worker.start()]);
  await until('all jobs', () => Promise.resolve(ran >= jobs), 600_000);
  const drained = (1_000 * jobs) / (performance.now() - began);
  await worker.stop();
  await scheduler.stop();
  return [perSecond, drained];
}

const middle = (list: readonly number[]): number => list.toSorted((a, b) => a - b)[list.length >> 1] ?? NaN;

const data = mkdtempSync(join(tmpdir(), 'pgqueue-encryption-'));
const server = await startEmbedded({ data });
try {
  for (const task of [silent, telling]) {
    const plainRates: number[] = [];
    const ratios = new Map(
      Object.values(codecs).map((codec): [Codec, [number[], number[]]] => [codec, [[], []]]),
    );
    for (let round = -1; round < rounds; round += 1) {
      // in turn, each one first
      const kinds = [undefined, ...ratios.keys()];
      const first = (round + 1) % kinds.length;
      const found = new Map<Codec | undefined, readonly [number, number]>();
      for (const codec of [...kinds.slice(first), ...kinds.slice(0, first)])
        found.set(codec, await run(server.adminUrl, { task, codec }));
      // the first round warms up
      if (round < 0) continue;
      const [plainEnqueues, plainDrains] = found.get(undefined) ?? [NaN, NaN];
      plainRates.push(plainDrains);
      for (const [codec, [enqueues, drains]] of ratios) {
        const [enqueued, drained] = found.get(codec) ?? [NaN, NaN];
        enqueues.push(enqueued / plainEnqueues);
        drains.push(drained / plainDrains);
      }
    }
    const rate = Math.round(middle(plainRates));
    console.log(`${task === silent ? 'without' : 'with'} results, plain: drains at ${rate} a second`);
    for (const [name, codec] of Object.entries(codecs)) {
      const [enqueues, drains] = ratios.get(codec) ?? [[], []];
      const all = drains.map((ratio) => ratio.toFixed(2)).join(' ');
      console.log(
        `  ${name}: of plain, enqueues ${middle(enqueues).toFixed(2)}, drains ${middle(drains).toFixed(2)} (${all})`,
      );
    }
  }
} finally {
  await server.stop();
  rmSync(data, { recursive: true, force: true });
}
