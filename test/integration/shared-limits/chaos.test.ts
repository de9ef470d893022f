// Limits over four installations while random faults come one after the other, in a random order that a seed repeats.
import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFailed, test } from 'vitest';
import { load } from '../../proofs/fleet.ts';
import type { Actor } from '../../support/actors.ts';
import { opened } from '../../support/database.ts';
import { nth } from '../installations/support.ts';
import { beyondRate, concurrency, createSites, mostInFlight, ofQueue } from './sites.ts';

const seconds = Number(process.env['PGQUEUE_TEST_SECONDS'] ?? 40);
const seed = Number(process.env['PGQUEUE_TEST_SEED'] ?? 1);
const sites = opened(() => createSites(4));

/** Draws whole numbers below a bound: mulberry32. */
function drawer(start: number): (below: number) => number {
  let at = start;
  return (below) => {
    at = (at + 0x6d_2b_79_f5) | 0;
    let mixed = Math.imul(at ^ (at >>> 15), 1 | at);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

test('whatever fails, neither limit is exceeded, and jobs go on', async () => {
  const draw = drawer(seed);
  const actors = new Map<string, { readonly site: number; readonly actor: Actor }>();
  const spawn = async (site: number, name: string): Promise<void> =>
    void actors.set(name, { site, actor: await sites.spawn(site, name) });
  await Promise.all([0, 1].flatMap((site) => ['a', 'b'].map((one) => spawn(site, `${one}${site}`))));
  for (const site of [2, 3]) await sites.schedule(site);
  for (const site of [0, 1, 2, 3]) await sites.work(site, 80);

  const enqueue = async (): Promise<void> => {
    const database = nth(sites.databases, draw(4));
    await load(database, { count: 20 + draw(200), queue: 'calls', key: 'c', ms: 50 + draw(900) });
    await load(database, { count: 50 + draw(400), queue: 'texts', key: 't', ms: 1 });
  };
  const drawActor = (): [string, { readonly site: number; readonly actor: Actor }] => {
    const all = [...actors];
    return nth(all, draw(all.length));
  };
  const faults: Readonly<Record<string, () => Promise<void>>> = {
    kill: async () => {
      const [name, { site, actor }] = drawActor();
      actor.signal('SIGKILL');
      actors.delete(name);
      await spawn(site, `${name}x`);
    },
    freeze: async () => {
      const [, { actor }] = drawActor();
      actor.signal('SIGSTOP');
      await delay(500 + draw(7_000));
      actor.signal('SIGCONT');
    },
    silence: async () => {
      sites.proxy.hold(draw(2) === 0 ? 'to-client' : 'to-server');
      await delay(500 + draw(7_000));
      sites.proxy.hold(undefined);
      if (draw(2) === 0) sites.proxy.reset();
    },
    cut: async () => {
      sites.proxy.cutReplyOf('lease_limit');
      await delay(500);
    },
    slow: async () => {
      sites.proxy.delay(() => draw(1_500));
      await delay(500 + draw(5_000));
      sites.proxy.delay(undefined);
    },
    terminate: async () => {
      await nth(sites.databases, draw(4)).query(
        'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
        [],
      );
    },
  };
  const names = Object.keys(faults);
  const endAt = performance.now() + seconds * 1_000;
  const happened: string[] = [];
  onTestFailed(() => console.log(happened.join(' ')));
  while (performance.now() < endAt) {
    await enqueue();
    const name = nth(names, draw(names.length));
    happened.push(name);
    await faults[name]?.();
    await delay(draw(1_500));
  }
  await delay(10_000);
  const items = await sites.items();
  const calls = ofQueue(items, 'calls');
  const told = { most: mostInFlight(calls), beyond: beyondRate(items), jobs: items.length, happened };
  if (process.env['PGQUEUE_TEST_FIGURES'] !== undefined) console.log(JSON.stringify(told));
  expect(told.most).toBeLessThanOrEqual(concurrency);
  expect(told.beyond).toBeLessThan(1e-3);
  expect(items.length).toBeGreaterThan(200);
}, 900_000);
