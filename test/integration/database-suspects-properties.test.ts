import { resetNode } from '@pgqueue/postgres';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Ground, Member } from './database-support.ts';
import { openGround } from './database-support.ts';

/** Random claims, ends, deaths and times on three nodes: who is with whom, and whether everyone comes to an end. */
let ground: Ground;
beforeAll(async () => {
  ground = await openGround();
});
afterAll(() => ground.close());

const nodes = ['a', 'b', 'c'] as const;
type Name = (typeof nodes)[number];

type Act =
  | { readonly kind: 'enqueue'; readonly count: number }
  | { readonly kind: 'claim'; readonly node: Name; readonly max: number }
  | { readonly kind: 'settle'; readonly node: Name; readonly outcome: 'done' | 'retry' }
  | { readonly kind: 'die'; readonly node: Name }
  | { readonly kind: 'wait'; readonly ms: number }
  /** A claim after a minute without any. */
  | { readonly kind: 'late'; readonly node: Name };

const aNode = fc.constantFrom(...nodes);
const anAct: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('enqueue'), count: fc.integer({ min: 1, max: 4 }) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('claim'), node: aNode, max: fc.integer({ min: 1, max: 4 }) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('settle'),
      node: aNode,
      outcome: fc.constantFrom('done', 'retry'),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('die'), node: aNode }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('late'), node: aNode }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('wait'), ms: fc.constantFrom(300, 1_000, 11_000, 31_000) }),
  },
);

type Members = Record<Name, Member>;

async function act(members: Members, what: Act): Promise<void> {
  switch (what.kind) {
    case 'enqueue': {
      for (let n = 0; n < what.count; n += 1) await ground.insert({ max_crashes: 2 + (n % 2) });
      return dispatchAll();
    }
    case 'claim':
      return claimOne(members[what.node], what.max);
    case 'settle': {
      const held = await ground.sql(
        'select id, lock_token as token from pgqueue.work_queue where lock_key = $1 order by started limit 1',
        [what.node],
      );
      await ground.settle(held as unknown as { id: string; token: string }[], what.outcome, { delayMs: 0 });
      await ground.sql('update pgqueue.queue set run_after = null');
      return dispatchAll();
    }
    case 'die': {
      await resetNode(ground.database, what.node);
      members[what.node] = await ground.node(what.node);
      return;
    }
    case 'late':
      await act(members, { kind: 'wait', ms: 62_000 });
      return claimOne(members[what.node], 1);
    case 'wait': {
      const by = `interval '${what.ms} ms'`;
      await ground.sql(`update pgqueue.work_queue set started = started - ${by} where lock_key is not null`);
      await ground.sql(
        `update pgqueue.work_queue set waits_since = waits_since - ${by}, dispatched = dispatched - ${by}`,
      );
      await ground.sql(`update pgqueue.node set alone_until = alone_until - ${by}`);
      return;
    }
  }
}

/** A suspect that has waited for a minute is let in. */
async function claimOne(node: Member, max: number): Promise<void> {
  const [overdue] = await ground.sql(
    `
  select w.id from pgqueue.work_queue w join pgqueue.queue q on q.id = w.id
  where w.suspect and w.lock_key is null and q.crashes + 1 < q.max_crashes
    and coalesce(w.waits_since, w.dispatched) < clock_timestamp() - interval '61 s'
    and not exists (
      select from pgqueue.work_queue h join pgqueue.queue j on j.id = h.id
      where h.lock_key = $1 and h.suspect
        and (h.started > clock_timestamp() - interval '800 ms' or j.crashes + 1 >= j.max_crashes))`,
    [node.id],
  );
  const claimed = await ground.claim(node, max);
  if (overdue === undefined) return;
  letIn += 1;
  if (claimed.length !== 1 || claimed[0]?.crashes === 0) {
    throw new Error(`not let in: ${JSON.stringify(overdue)}, but ${JSON.stringify(claimed)}`);
  }
}

async function dispatchAll(): Promise<void> {
  const waiting = await ground.sql(
    'select q.id from pgqueue.queue q where not exists (select from pgqueue.work_queue w where w.id = q.id)',
  );
  await ground.dispatch(waiting.map(({ id }) => String(id)));
}

/** The leases of all nodes. */
async function leases(): Promise<readonly unknown[]> {
  const held = await ground.sql(
    'select lock_token as token, id from pgqueue.work_queue where lock_key is not null',
  );
  return held.map(({ token, id }) => `${String(token)} ${String(id)}`);
}

/**
 * Pairs of leases of one node that should not be together, where one has come since; times are of a few statements' precision. Who was let in
 * while an older suspect was there stays when that one has ended.
 */
const together = (before: readonly unknown[]): Promise<readonly object[]> =>
  ground.sql(
    `
  with held as (
    select w.lock_key, w.id, w.suspect, w.started, q.crashes + 1 >= q.max_crashes as last,
           w.started >= coalesce(w.waits_since, w.dispatched) + interval '59 s' as due,
           w.lock_token || ' ' || w.id = any ($1) as old
    from pgqueue.work_queue w join pgqueue.queue q on q.id = w.id where w.lock_key is not null)
  select s.id, o.id as other,
         case when s.last then 'its last life' when not o.suspect then 'its first half minute' else 'its first moments' end as why
  from held s join held o on o.lock_key = s.lock_key and o.id <> s.id
  where s.suspect and not (s.old and o.old) and (s.last
    or not o.suspect and o.started < s.started + interval '29 s' and not (s.due and o.started < s.started)
    or o.suspect and o.started between s.started and s.started + interval '600 ms'
       and not exists (select from held e where e.lock_key = s.lock_key and e.started < s.started - interval '600 ms'))`,
    [before],
  );

/** Does it, and looks at who is together then. */
async function actApart(members: Members, what: Act): Promise<void> {
  const before = await leases();
  await act(members, what);
  const found = await together(before);
  if (found.length > 0) throw new Error(`together: ${JSON.stringify(found)}`);
}

/** All nodes live, time goes by, and whatever runs comes to its end. */
async function finish(members: Members): Promise<number> {
  for (let round = 0; round < 80; round += 1) {
    for (const node of nodes) {
      await actApart(members, { kind: 'claim', node, max: 2 });
    }
    for (const node of nodes) await act(members, { kind: 'settle', node, outcome: 'done' });
    await act(members, { kind: 'wait', ms: 5_000 });
    if ((await ground.one('select count(*)::integer from pgqueue.queue')) === 0) return round;
  }
  throw new Error(
    `jobs that are never run: ${JSON.stringify(await ground.sql('select * from pgqueue.job'))}`,
  );
}

/** How often one was met that ran, and one that was overdue. */
/** No node is empty. */
const begin: readonly Act[] = [
  { kind: 'enqueue', count: 4 },
  { kind: 'claim', node: 'a', max: 2 },
  { kind: 'claim', node: 'b', max: 1 },
  { kind: 'claim', node: 'c', max: 1 },
];

let met = 0;
let letIn = 0;
const property = fc.asyncProperty(fc.array(anAct, { maxLength: 40, size: 'max' }), async (acts) => {
  await ground.reset();
  const members: Members = {
    a: await ground.node('a'),
    b: await ground.node('b'),
    c: await ground.node('c'),
  };
  for (const what of [...begin, ...acts]) {
    await actApart(members, what);
    if (
      (await ground.one(
        `select count(*)::integer from pgqueue.work_queue where suspect and lock_key is not null`,
      )) !== 0
    )
      met += 1;
  }
  await finish(members);
  await ground.sound();
});
const budget = { numRuns: 40, endOnFailure: true, interruptAfterTimeLimit: 5_000 };

test('no suspect is with those that it could harm, and everyone comes to an end', async () => {
  await fc.assert(property, budget);
  expect(met).toBeGreaterThan(5);
  expect(letIn).toBeGreaterThan(5);
}, 60_000);

test.each([
  ['a node that does not close', 'closed_for', /return exists \(/, 'return false and exists ('],
  ['a suspect that joins whoever is there', 'find_suspect', /v_held = 0 or \(/, 'true or ('],
  ['a suspect that waits without end', 'find_suspect', /v_begins := true/, 'return null'],
  [
    'a suspect in its last life that joins others in time',
    'find_suspect',
    /q.crashes \+ 1 < q.max_crashes and/,
    'true and',
  ],
  [
    'a suspect that nobody makes room for',
    'find_suspect',
    /if v_begins then/,
    'return null; if v_begins then',
  ],
])(
  'the property finds %s',
  async (_name, name, where, instead) => {
    const source = String(
      await ground.one(
        `select pg_get_functiondef(p.oid) from pg_proc p join pg_namespace n on n.oid = p.pronamespace
       where n.nspname = 'pgqueue' and p.proname = $1`,
        [name],
      ),
    );
    expect(source).toMatch(where);
    await ground.sql(source.replace(where, instead));
    const found = await fc.check(property, { ...budget, interruptAfterTimeLimit: 20_000 });
    await ground.sql(source);
    expect(found.failed && !found.interrupted).toBe(true);
  },
  60_000,
);
