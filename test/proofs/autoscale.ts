// A closed loop: worker processes are started and stopped by `wanted_slots`, as KEDA does, while the load swings.
import { setTimeout as delay } from 'node:timers/promises';
import { until } from '../support/until.ts';
import type { Fleet } from './fleet.ts';
import { countRows, fresh, load, openFleet } from './fleet.ts';

export interface Autoscaling {
  readonly url: string;
  /** Number of bursts, each followed by a time in which a limit holds most jobs, and by rest. */
  readonly swings: number;
  /** Jobs of a burst, and of the queue with a limit of one. */
  readonly burst: number;
  readonly held: number;
  readonly jobMs: number;
  /** Slots of a worker. */
  readonly slots: number;
  readonly min: number;
  readonly max: number;
  /** Time between two readings, and for which fewer workers must be wanted before some are stopped. */
  readonly everyMs: number;
  readonly downMs: number;
}

export interface AutoscaleReport {
  readonly enqueued: number;
  readonly done: number;
  /** Jobs that are neither done nor waiting. */
  readonly lost: number;
  readonly started: number;
  readonly stopped: number;
  /** Most workers at a time. */
  readonly most: number;
  /** Most workers wanted while a limit held all waiting jobs but one, and most jobs that waited then. */
  readonly held: { readonly workers: number; readonly waiting: number };
  /** Workers when nothing was left to do. */
  readonly atEnd: number;
  /** From each burst until the number told of it, until the last worker wanted was ready, and until it was done. */
  readonly burstMs: readonly { readonly number: number; readonly workers: number; readonly done: number }[];
  /** From the end of all work until the last worker wanted no longer had ended. */
  readonly restMs: readonly number[];
}

export async function autoscaleRun(given: Autoscaling): Promise<AutoscaleReport> {
  const { url, swings, burst, held, jobMs, slots, min, max } = given;
  const fleet = openFleet(url);
  const limited = 'limited';
  try {
    await fleet.database.query('insert into pgqueue.queue_config (queue, concurrency) values ($1, 1)', [
      limited,
    ]);
    await fleet.startSchedulers([fresh('scheduler')], {});
    const scaler = startScaler(fleet, given);
    const burstMs: AutoscaleReport['burstMs'][number][] = [];
    const restMs: number[] = [];
    let heldMost = { workers: 0, waiting: 0 };
    const empty = (queue: string) => async (): Promise<boolean> =>
      (await countRows(fleet.database, 'queue', `queue = '${queue}'`)) === 0;
    try {
      for (let swing = 0; swing < swings; swing += 1) {
        const beganAt = performance.now();
        const sinceMs = (): number => Math.round(performance.now() - beganAt);
        await load(fleet.database, { count: burst, ms: jobMs });
        await until(
          'the number tells of the burst',
          () => (scaler.wanted() ?? 0) > slots * (max - 1),
          60_000,
        );
        const number = sinceMs();
        await until('all workers are ready', () => fleet.workers.size === max, 120_000);
        const workers = sinceMs();
        await until('the burst is done', empty('default'), 120_000);
        burstMs.push({ number, workers, done: sinceMs() });

        await load(fleet.database, { count: held, ms: jobMs, queue: limited });
        await until('one worker is enough', () => scaler.desired() === Math.max(min, 1), 60_000);
        const waiting = await countRows(fleet.database, 'queue', `queue = '${limited}'`);
        const during = scaler.watch();
        await until('the limited jobs are done', empty(limited), 120_000);
        heldMost = {
          workers: Math.max(heldMost.workers, during()),
          waiting: Math.max(heldMost.waiting, waiting),
        };
        const restAt = performance.now();
        await until('only the fewest workers are left', () => scaler.workers() === min, 120_000);
        restMs.push(Math.round(performance.now() - restAt));
      }
    } finally {
      await scaler.stop();
    }
    const enqueued = swings * (burst + held);
    const done = await countRows(fleet.database, 'history', `outcome = 'done'`);
    const left = await countRows(fleet.database, 'queue');
    const { started, stopped, most } = scaler.counts();
    const atEnd = fleet.workers.size;
    return {
      enqueued,
      done,
      lost: enqueued - done - left,
      started,
      stopped,
      most,
      held: heldMost,
      atEnd,
      burstMs,
      restMs,
    };
  } finally {
    await fleet.stop();
  }
}

interface Scaler {
  /** The last number. Null: nobody knew it. */
  readonly wanted: () => number | null;
  /** Workers that it wants at present. */
  readonly desired: () => number;
  /** Workers that run, start or drain. */
  readonly workers: () => number;
  /** Returns a function that returns the most workers wanted since. */
  readonly watch: () => () => number;
  readonly counts: () => { readonly started: number; readonly stopped: number; readonly most: number };
  readonly stop: () => Promise<void>;
}

/** Starts workers at once, and stops them when fewer were wanted for `downMs`: as a horizontal autoscaler does. */
function startScaler(fleet: Fleet, { slots, min, max, everyMs, downMs }: Autoscaling): Scaler {
  const stopping = new AbortController();
  const busy = new Set<Promise<void>>();
  const names: string[] = [];
  const recent: { readonly atMs: number; readonly workers: number }[] = [];
  const seen = { wanted: null as number | null, desired: min, watched: 0 };
  const counts = { started: 0, stopped: 0, most: 0 };
  const later = (work: Promise<void>): void => {
    busy.add(work);
    void work.finally(() => busy.delete(work));
  };
  const scale = (): void => {
    const atMs = performance.now();
    if (seen.wanted === null) return;
    seen.desired = Math.min(max, Math.max(min, Math.ceil(seen.wanted / slots)));
    seen.watched = Math.max(seen.watched, seen.desired);
    recent.push({ atMs, workers: seen.desired });
    while ((recent[0]?.atMs ?? atMs) < atMs - downMs) recent.shift();
    const least = Math.max(...recent.map(({ workers }) => workers));
    while (names.length < seen.desired) {
      const name = fresh('worker');
      names.push(name);
      counts.started += 1;
      later(fleet.startWorkers([name], { concurrency: slots }));
    }
    while (names.length > least && fleet.workers.size === names.length) {
      const name = names.shift() ?? '';
      const actor = fleet.workers.get(name);
      fleet.workers.delete(name);
      counts.stopped += 1;
      if (actor !== undefined) later(actor.stop());
    }
    counts.most = Math.max(counts.most, names.length);
  };
  const loop = (async () => {
    while (!stopping.signal.aborted) {
      const [row] = await fleet.database.query<{ wanted: number | null }>(
        'select pgqueue.wanted_slots() as wanted',
        [],
      );
      seen.wanted = row?.wanted ?? null;
      scale();
      await delay(everyMs, undefined, { signal: stopping.signal }).catch(() => {});
    }
  })();
  return {
    wanted: () => seen.wanted,
    desired: () => seen.desired,
    workers: () => names.length + busy.size,
    watch: () => {
      seen.watched = 0;
      return () => seen.watched;
    },
    counts: () => counts,
    stop: async () => {
      stopping.abort();
      await loop;
      await Promise.all(busy);
    },
  };
}
