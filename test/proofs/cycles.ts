// Measures keys with a limit of 1: how fast one job follows another, and which part of the cycle takes the
// time.
import { until } from '../support/until.ts';
import type { ProofConfig } from './actors/config.ts';
import { percentile } from './checks.ts';
import type { Fleet } from './fleet.ts';
import { countRows, doneJobs, load, openFleet } from './fleet.ts';
import { databaseNow, record, recordedItems } from './recorder.ts';

export interface CyclesOptions {
  readonly url: string;
  readonly keys: number;
  readonly seconds: number;
  readonly workers?: number;
  /** True to record the parts of each cycle, which costs some of the speed. */
  readonly parts?: boolean;
  readonly scheduler?: ProofConfig;
  readonly worker?: ProofConfig;
}

/** Milliseconds: median and 90th percentile. */
export interface Part {
  readonly p50: number;
  readonly p90: number;
}

export interface CyclesReport {
  /** Jobs a second, by key. */
  readonly perKey: readonly number[];
  /** Jobs in the best second of the run, by key: the speed on a machine without other load. */
  readonly bestPerKey: readonly number[];
  /** Parts of a cycle in their order; empty unless they were asked for. */
  readonly parts: Readonly<Record<string, Part>>;
}

const handlerMs = 5;

/** Runs jobs of 5 ms, in keys that may each run one job at a time. */
export async function cyclesRun(options: CyclesOptions): Promise<CyclesReport> {
  const { url, keys, seconds, workers = 1, parts = false } = options;
  const fleet = openFleet(url);
  const names = Array.from({ length: keys }, (_, n) => `key-${n}`);
  try {
    await fleet.database.query(
      `insert into pgqueue.queue_config (queue, key_concurrency) values ('default', 1)
       on conflict (queue) do update set key_concurrency = 1`,
      [],
    );
    if (parts) await record(fleet.database);
    await fleet.startSchedulers(['scheduler'], { tells: parts ? ['tick'] : [], ...options.scheduler });
    await fleet.startWorkers(
      Array.from({ length: workers }, (_, n) => `node-${n}`),
      { concurrency: 10, ...options.worker },
    );
    for (const key of names) {
      await load(fleet.database, { count: (seconds + 3) * 200, key, ms: handlerMs });
    }
    await until('a hundred jobs to end', async () => (await countRows(fleet.database, 'history')) > 100);
    const fromMs = await databaseNow(fleet.database);
    const toMs = fromMs + seconds * 1_000;
    await until(
      'the window to pass',
      async () => (await databaseNow(fleet.database)) > toMs,
      (seconds + 5) * 1_000,
    );
    const done = (await doneJobs(fleet.database, fromMs)).filter(({ finishedMs }) => finishedMs < toMs);
    const times = names.map((name) =>
      done.flatMap(({ key, finishedMs }) => (key === name ? [finishedMs - fromMs] : [])),
    );
    return {
      perKey: times.map((own) => own.length / seconds),
      bestPerKey: times.map((own) => bestSecond(own)),
      parts: parts ? await partsOf(fleet, { fromMs, toMs }) : {},
    };
  } finally {
    await fleet.stop();
  }
}

/** Returns the largest number of times within any one second. */
function bestSecond(times: readonly number[]): number {
  let from = 0;
  let best = 0;
  times.forEach((atMs, index) => {
    while ((times[from] ?? atMs) < atMs - 1_000) from += 1;
    best = Math.max(best, index - from + 1);
  });
  return best;
}

/**
 * Returns the parts of a cycle: from the end of one handler to the end of the next of the same key. All
 * processes use the clock of one machine. The scheduler's tick is the last one that began before the item was
 * written.
 */
async function partsOf(
  fleet: Fleet,
  window: { readonly fromMs: number; readonly toMs: number },
): Promise<Readonly<Record<string, Part>>> {
  const items = await recordedItems(fleet.database);
  const done = new Map((await doneJobs(fleet.database, window.fromMs - 1_000)).map((job) => [job.id, job]));
  const ticks = [...fleet.schedulers.values()]
    .flatMap(({ heard }) => heard)
    .flatMap(({ type, atMs, durationMs, dispatched }) =>
      type === 'tick' && Number(dispatched) > 0
        ? [{ beganMs: Number(atMs) - Number(durationMs), endedMs: Number(atMs) }]
        : [],
    );
  const samples = new Map<string, number[]>();
  const add = (name: string, ms: number): void => void samples.set(name, [...(samples.get(name) ?? []), ms]);
  for (const lane of Map.groupBy(items, ({ key }) => key).values()) {
    lane.forEach((item, index) => {
      const before = lane[index - 1];
      const [last, job] = [done.get(before?.id ?? ''), done.get(item.id)];
      const tick = ticks.findLast(({ beganMs }) => beganMs < item.insertedMs);
      if (
        typeof before?.endedMs !== 'number' ||
        last === undefined ||
        job === undefined ||
        tick === undefined
      )
        return;
      if (item.insertedMs < window.fromMs || job.endedMs > window.toMs) return;
      add('handler end → settle begins', last.finishedMs - last.endedMs);
      add('settle begins → its commit', before.endedMs - last.finishedMs);
      add('settle → tick begins', tick.beganMs - before.endedMs);
      add('tick begins → work item written', item.insertedMs - tick.beganMs);
      add('work item written → tick ends', tick.endedMs - item.insertedMs);
      add('work item written → leased', (item.leasedMs ?? NaN) - item.insertedMs);
      add('leased → handler begins', job.beganMs - (item.leasedMs ?? NaN));
      add('handler', job.endedMs - job.beganMs);
      add('whole cycle', job.endedMs - last.endedMs);
    });
  }
  return Object.fromEntries(
    [...samples].map(([name, values]) => [
      name,
      { p50: percentile(values, 0.5), p90: percentile(values, 0.9) },
    ]),
  );
}
