import { beforeEach, describe, expect, test } from 'vitest';
import { useDatabase } from '../../support/database.ts';

const { operator, die, insert, reset, sql } = useDatabase();

beforeEach(reset);

describe('dead', () => {
  test('pages by time of death, with filters', async () => {
    const ids: string[] = [];
    for (let n = 0; n < 3; n += 1) ids.push(await die({ queue: 'a' }), await die({ queue: 'b' }));
    // all in one microsecond: only the id tells them apart
    await sql(`update pgqueue.dead_letter set died = '2026-01-01T00:00:00.123456Z' where queue = 'a'`);
    const first = await operator.dead.list({ limit: 4 });
    expect(first.items.map(({ queue }) => queue)).toEqual(['b', 'b', 'b', 'a']);
    const rest = await operator.dead.list({ limit: 4, after: first.next ?? '' });
    expect(rest.next).toBeNull();
    const seen = [...first.items, ...rest.items].map(({ id }) => id);
    expect([...seen].sort()).toEqual([...ids].sort());
    expect((await operator.dead.list({ queue: 'b', reason: 'gave_up', task: 'hello' })).items).toHaveLength(
      3,
    );
    expect((await operator.dead.list({ reason: 'crash_limit' })).items).toEqual([]);
    expect((await operator.dead.list({ olderThanMs: 60_000 })).items).toHaveLength(3);
    const lately = (await operator.dead.list({ newerThanMs: 3_600_000 })).items.map(({ queue }) => queue);
    expect(lately).toEqual(['b', 'b', 'b']);
    expect((await operator.dead.list({ newerThanMs: 3_600_000, olderThanMs: 3_600_000 })).items).toEqual([]);
    expect(first.items[0]).toMatchObject({ lastError: { message: 'no' }, reason: 'gave_up', tries: 1 });
    await expect(operator.dead.list({ after: 'x_y' })).rejects.toMatchObject({ code: 'configuration' });
  });

  test('redrive in chunks, with progress, skipping what a newer job has replaced', async () => {
    const taken = await die({ unique_key: 'u', queue: 'a' });
    await insert({ unique_key: 'u', queue: 'a' });
    for (let n = 0; n < 4; n += 1) await die({ queue: 'a' });
    const other = await die({ queue: 'b' });
    const progress: unknown[] = [];
    const result = await operator.dead.redrive(
      { queue: 'a' },
      { chunk: 2, onProgress: (step) => progress.push(step) },
    );
    expect(result).toEqual({ total: 5, done: 4, skipped: 1 });
    expect(progress).toEqual([
      { seen: 2, done: 1, total: 5 },
      { seen: 4, done: 3, total: 5 },
      { seen: 5, done: 4, total: 5 },
    ]);
    expect((await operator.dead.list()).items.map(({ id }) => id).sort()).toEqual([taken, other].sort());
    expect(await operator.dead.redrive({ ids: [other] })).toMatchObject({ done: 1 });
    expect(await operator.dead.redrive({ ids: [other] })).toEqual({ total: 1, done: 0, skipped: 1 });
    await expect(operator.dead.redrive({})).rejects.toMatchObject({ code: 'configuration' });
  });

  test('purge removes what is meant, and nothing else', async () => {
    const kept = await die({ queue: 'b' });
    for (let n = 0; n < 3; n += 1) await die({ queue: 'a' });
    const waiting = await insert();
    const old = await die({ queue: 'a' });
    await sql(`update pgqueue.dead_letter set died = died - interval '1 day' where id = $1`, [old]);
    expect(await operator.dead.purge({ olderThanMs: 3_600_000, newerThanMs: 172_800_000 })).toMatchObject({
      total: 1,
      done: 1,
    });
    expect(await operator.jobs.get(old)).toBeUndefined();
    expect(await operator.dead.purge({ ids: [waiting] })).toMatchObject({ done: 0, skipped: 1 });
    expect(await operator.jobs.get(waiting)).toBeDefined();
    expect(await operator.dead.purge({ queue: 'a' }, { chunk: 2 })).toEqual({
      total: 3,
      done: 3,
      skipped: 0,
    });
    expect((await operator.dead.list()).items.map(({ id }) => id)).toEqual([kept]);
    await expect(operator.dead.purge({})).rejects.toMatchObject({ code: 'configuration' });
    expect(await operator.dead.purge({ all: true })).toMatchObject({ done: 1 });
  });
});
