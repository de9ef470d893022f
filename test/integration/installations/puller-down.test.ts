// One puller over several installations, of which some are down, hang, or are others than they should be.
import type { RouterPulledJob } from '@pgqueue/router';
import { createRouter } from '@pgqueue/router';
import { describe, expect, test } from 'vitest';
import { startCutProxy } from '../../support/cut-proxy.ts';
import { until } from '../../support/until.ts';
import { names, nowhere, usePulling, where } from './pulling.ts';
import { nth } from './support.ts';

const { several, router, closing, open, openAt, ready, status, totals } = usePulling();

describe('one that is down', () => {
  test('keeps nobody waiting, is told, and its part of a settlement is named', async () => {
    await ready(1, 4);
    const { puller, events } = openAt({ 2: nowhere });
    const begun = performance.now();
    const jobs = await puller.claim({ max: 2 });
    expect(where(jobs)).toEqual(['one', 'one']);
    expect(performance.now() - begun).toBeLessThan(4_000);
    expect(events).toContainEqual(
      expect.objectContaining({
        type: 'database.error',
        during: 'start',
        error: expect.objectContaining({ data: { installation: 'two', number: 2 } }) as unknown,
      }),
    );
    const [first, second] = jobs as readonly [RouterPulledJob, RouterPulledJob];
    const other = { ...second, id: first.id, installation: 'two' };
    await expect(puller.ack([first, other])).rejects.toMatchObject({
      code: 'installation',
      message: expect.stringContaining('installation two (number 2)') as string,
      data: { accepted: [first.id], failed: [{ installation: 'two', jobs: [other.id] }] },
    });
    await expect(puller.length()).rejects.toMatchObject({ code: 'installation' });
    expect(await puller.scan()).toMatchObject({ unreachable: [{ installation: 'two' }] });
    expect(await puller.claim({ max: 9 })).toHaveLength(2);
    expect(await puller.claim({ waitMs: 10 })).toEqual([]);
  });

  test('one that hangs does not, either; what it hands out late goes to the next claim', async () => {
    const proxy = await startCutProxy(nth(several.installations, 1).connectionString);
    closing.push(() => proxy.close());
    const { puller } = openAt({ 2: proxy.url }, { heartbeatThread: false, listen: false });
    expect(await puller.claim()).toEqual([]);
    await ready(1, 5);
    const [late] = await ready(2, 1);
    proxy.hold('to-client');
    const seen: string[] = [];
    const tookMs: number[] = [];
    for (let n = 0; n < 5; n += 1) {
      const begun = performance.now();
      seen.push(...where(await puller.claim({ waitMs: 10_000 })));
      tookMs.push(performance.now() - begun);
    }
    expect(seen).toEqual(['one', 'one', 'one', 'one', 'one']);
    // it was waited for once, for a second, and not by each
    expect(tookMs.toSorted((a, b) => a - b)[2]).toBeLessThan(1_000);
    proxy.hold(undefined);
    const [job] = await puller.claim({ waitMs: 60_000 });
    expect(job).toMatchObject({ id: late, installation: 'two' });
    expect(await puller.ack(job as RouterPulledJob)).toEqual({ accepted: [late], stale: [] });
  });

  test('jobs that come too late, and that no claim takes, are given back uncounted', async () => {
    const proxy = await startCutProxy(nth(several.installations, 1).connectionString);
    closing.push(() => proxy.close());
    const { puller } = openAt({ 2: proxy.url }, { heartbeatThread: false, listen: false });
    expect(await puller.claim()).toEqual([]);
    const [id] = await ready(2, 1);
    proxy.hold('to-client');
    await until('its claim is sent', async () => {
      expect(await puller.claim()).toEqual([]);
      return (await status(id)) === 'running';
    });
    proxy.hold(undefined);
    await until('it is back', async () => (await status(id)) === 'ready');
    expect(await router.operator.jobs.get(id ?? '')).toMatchObject({ tries: 0, crashes: 0 });
    expect(puller.held).toBe(0);
  });

  test('is pulled from once it is back', async () => {
    const proxy = await startCutProxy(nth(several.installations, 1).connectionString);
    closing.push(() => proxy.close());
    proxy.hold('to-client');
    const { puller } = openAt({ 2: proxy.url });
    await ready(1, 1);
    expect(where(await puller.claim())).toEqual(['one']);
    proxy.hold(undefined);
    await ready(2, 1);
    expect(where(await puller.claim({ waitMs: 60_000 }))).toEqual(['two']);
  });

  test('if all are, the error names them', async () => {
    const { puller } = openAt({ 1: nowhere, 2: nowhere, 3: nowhere });
    await expect(puller.claim({ waitMs: 50 })).rejects.toMatchObject({
      code: 'installation',
      message: expect.stringMatching(/^no installation answers: installation one.*two.*three/) as string,
      data: { failed: names.map((installation) => expect.objectContaining({ installation }) as unknown) },
    });
  });

  test('one that is another than the list says is refused, before anything is claimed', async () => {
    await ready(1, 1);
    const proxy = await startCutProxy(nth(several.installations, 0).connectionString);
    closing.push(() => proxy.close());
    const swapped = createRouter({
      installations: [
        { ...nth(several.installations, 0), connectionString: proxy.url },
        { ...nth(several.installations, 1), number: 7 },
      ],
    });
    closing.push(() => swapped.close());
    const puller = open({}, swapped);
    proxy.hold('to-client'); // the other one answers first, also on a busy machine
    await expect
      .poll(() => puller.claim().catch((error: unknown) => error))
      .toMatchObject({
        code: 'configuration',
        message: expect.stringContaining('its database says number 2 (two)') as string,
      });
    proxy.hold(undefined);
    await expect(puller.claim()).rejects.toMatchObject({ code: 'configuration' });
    expect((await totals(1)).running).toBe(0);
  });

  test('a node id that another puller has is refused by name', async () => {
    // one whose heartbeat is late by another of these, on a busy machine, would be a dead one
    await open({ node: 'same', heartbeatMs: 1_000 }).claim();
    const other = open({ node: 'same' });
    await expect
      .poll(() => other.claim().catch((error: unknown) => error))
      .toMatchObject({
        code: 'node_id_in_use',
        data: { installation: expect.any(String) as unknown },
      });
  });
});
