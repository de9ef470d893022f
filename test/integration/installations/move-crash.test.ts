// A mover may end at any moment. Each statement of a move fails once, before it runs or after it was committed; the move is
// then repeated by another mover, and each job is in one place, once and in its order.
import { defineTask } from '@pgqueue/core';
import { homeOf } from '@pgqueue/router';
import type { Database } from '@pgqueue/postgres';
import { expect, test } from 'vitest';
import { z } from 'zod';
import type { Member } from '../../../packages/router/src/installations/member.ts';
import { createMember } from '../../../packages/router/src/installations/member.ts';
import { moveKey } from '../../../packages/router/src/move/move.ts';
import type { KeyMoved } from '../../../packages/router/src/move/move.ts';
import { createRoutes } from '../../../packages/router/src/route/routes.ts';
import { nth, useSeveral, waitingIn } from './support.ts';

const task = defineTask({ name: 'hello', payload: z.object({ n: z.number() }) });
const { several, router } = useSeveral(3);
const key = Array.from({ length: 99 }, (_, n) => `k${n}`).find((one) => homeOf(one, [1, 2, 3]) === 1) ?? '';

/** When a mover ends: at its nth statement that changes something, before it runs or after it. */
interface Crash {
  readonly at: number;
  readonly when: 'before' | 'after';
}

/** Moves a key with routers of its own, which may crash. Resolves to undefined if it did; `statements`: those it made. */
async function moveOnce(
  to: number,
  crash?: Crash,
): Promise<{ readonly moved: KeyMoved | undefined; readonly statements: readonly string[] }> {
  const statements: string[] = [];
  let dead = false;
  const failing = (database: Database): Database => ({
    ...database,
    query: async (text, values) => {
      if (dead) throw new Error('the process has ended');
      const name = /pgqueue\.(\w+)\(/.exec(text)?.[1];
      if (name !== undefined) statements.push(name);
      const now = name !== undefined && statements.length === crash?.at;
      dead ||= now;
      if (now && crash.when === 'before') throw new Error('the process has ended');
      const rows = await database.query(text, values);
      if (now) throw new Error('the process has ended');
      return rows as never;
    },
  });
  const members = several.installations.map((installation): Member => {
    const member = createMember(installation, { alone: false });
    return { ...member, database: failing(member.database), patient: () => failing(member.patient()) };
  });
  const routes = createRoutes(members, 60_000);
  try {
    const moved = await moveKey({ members, routes }, { key, to: nth(members, to - 1) });
    return { moved, statements };
  } catch (error) {
    if (!String(error).includes('the process has ended')) throw error;
    return { moved: undefined, statements };
  } finally {
    await routes.stop();
    await Promise.all(members.map((member) => member.close()));
  }
}

async function enqueue(from: number, count: number): Promise<void> {
  const jobs = Array.from({ length: count }, (_, n) =>
    task.job(
      { n: from + n },
      { key, ...(n % 7 === 3 ? { delay: '1h' as const } : {}), queue: n % 2 ? 'mail' : 'bulk' },
    ),
  );
  await router.producer.enqueueMany(jobs);
}

/** Numbers of all jobs of QUEUE by installation, in the order in which each lane goes. */
const numbersIn = async (installation: number): Promise<readonly number[]> =>
  (
    await nth(several.databases, installation - 1).query<{ readonly n: number }>(
      `select (payload ->> 'n')::integer as n from pgqueue.queue order by queue, seq`,
      [],
    )
  ).map(({ n }) => n);

const inLanes = (count: number): readonly number[] =>
  Array.from({ length: count }, (_, n) => n).toSorted((a, b) => (a % 2) - (b % 2) || a - b);

test('whole after an end at any statement, and one more move', async () => {
  await enqueue(0, 40);
  const { statements } = await moveOnce(2);
  expect(new Set(statements)).toEqual(
    new Set([
      'claim_move',
      'hold_key',
      'leave_key',
      'hand_over',
      'next_slice',
      'receive_jobs',
      'forget_slice',
      'finish_move',
      'open_key',
      'set_route',
    ]),
  );
  let [here, there] = [2, 3];
  let enqueued = 40;
  for (const when of ['before', 'after'] as const) {
    for (let at = 1; at <= statements.length; at += 1) {
      const { moved } = await moveOnce(there, { at, when });
      // two more come in between, to wherever their home is now
      await enqueue(enqueued, 2);
      enqueued += 2;
      const again = await moveOnce(there).catch((error: unknown) => {
        // it was over, but for the answer, or for copies of the route
        if (String(error).includes('already')) return undefined;
        throw error;
      });
      const what = `${when} statement ${at}, ${statements[at - 1]}`;
      const waiting = [0, 0, 0];
      waiting[there - 1] = enqueued;
      const left = several.databases.map((database) =>
        database.query(
          `select key from pgqueue.key_move where opened is null union all select key from pgqueue.handover
           union all select key from pgqueue.route where state = 'moving'`,
          [],
        ),
      );
      expect({
        what,
        // a move that ended has nothing left for the next one
        once: moved === undefined || again === undefined,
        waiting: await waitingIn(several),
        order: await numbersIn(there),
        left: (await Promise.all(left)).flat(),
      }).toEqual({ what, once: true, waiting, order: inLanes(enqueued), left: [] });
      [here, there] = [there, here];
    }
  }
});

test('a mover that comes late, with a slice that has run since, changes nothing', async () => {
  const [old, home] = [nth(several.databases, 0), nth(several.databases, 1)];
  await enqueue(0, 10);
  await moveOnce(2, { at: 5, when: 'after' }); // handed over
  const [slice] = await old.query<{ readonly slice: string; readonly jobs: string }>(
    `select slice, jobs from pgqueue.next_slice($1)`,
    [key],
  );
  await moveOnce(2);
  await home.query('delete from pgqueue.queue', []); // they have run
  const late = (version: number): Promise<unknown> =>
    home.query('select pgqueue.receive_jobs($1, $2::bigint, $3::uuid, $4::json)', [
      key,
      version,
      slice?.slice,
      slice?.jobs,
    ]);
  await expect(late(1)).rejects.toMatchObject({ code: 'PQ005' });
  expect(await waitingIn(several)).toEqual([0, 0, 0]);
  await expect(old.query('select pgqueue.hand_over($1, 1, null, 10, false)', [key])).rejects.toMatchObject({
    code: 'PQ005',
  });
  await expect(home.query('select pgqueue.hold_key($1, 1, 1)', [key])).rejects.toMatchObject({
    code: 'PQ005',
  });
  expect(await old.query('select pgqueue.claim_move($1, 3, 1) as x', [key])).toEqual([{ x: null }]);
});
