import { reap, resetNode } from '@pgqueue/postgres/internal';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import type { Member } from '../sql/support.ts';
import { openGround } from '../sql/support.ts';

/**
 * Random fleets that run innocent jobs and poison, in virtual time. Checks who is charged with a crash, and
 * that every job comes to an end. Claims, ends and deaths are the database's own functions; time passes by
 * moving the start of leases back.
 */
const ground = opened(openGround);

const stepSeconds = 0.5;
/** Seconds after which a suspect lets another one begin. */
const apartSeconds = 1;
const stepsMax = 1_000;

/** A job's plan. After `seconds`, poison strikes and kills its node; an innocent job is done. */
interface Plan {
  readonly poison: boolean;
  readonly seconds: number;
  readonly maxCrashes: number;
}

interface World {
  readonly nodes: number;
  readonly slots: number;
  readonly jobs: readonly Plan[];
  /**
   * Decides which leases run out before the node is known to be dead: indexed by the number of the death plus
   * that of the lease, cyclically.
   */
  readonly expires: readonly boolean[];
}

const seconds = fc.constantFrom(0.5, 1, 2.5, 4, 7, 13);
const aWorld: fc.Arbitrary<World> = fc.record({
  nodes: fc.integer({ min: 1, max: 3 }),
  slots: fc.integer({ min: 1, max: 4 }),
  jobs: fc
    .tuple(fc.array(seconds, { minLength: 1, maxLength: 3 }), fc.array(seconds, { maxLength: 7 }))
    .chain(([poison, innocent]) => {
      const maxCrashes = fc.constantFrom(2, 3, 3, 4);
      const plans = [
        ...poison.map((each) => ({ poison: true, seconds: each })),
        ...innocent.map((each) => ({ poison: false, seconds: each })),
      ];
      return fc
        .shuffledSubarray(plans, { minLength: plans.length })
        .chain((all) =>
          fc.tuple(...all.map((plan) => maxCrashes.map((max) => ({ ...plan, maxCrashes: max })))),
        );
    }),
  expires: fc.array(fc.boolean(), { minLength: 1, maxLength: 7 }),
});

interface Running {
  readonly id: string;
  readonly token: string;
  readonly position: number;
  readonly node: string;
  readonly began: number;
  /** It was a suspect when it began. */
  readonly suspect: boolean;
}

interface Life {
  readonly plan: Plan;
  strikes: number;
  /** Its first strike was charged to others alone. */
  hidden: boolean;
}

/** Number of occurrences of each situation that the guarantees are about. */
const met = { strikes: 0, hidden: 0, spared: 0, joined: 0 };

async function play(world: World): Promise<void> {
  await ground.reset();
  const members = new Map<string, Member>();
  for (let n = 0; n < world.nodes; n += 1) members.set(`n${n}`, await ground.node(`n${n}`));
  const lives = new Map<string, Life>();
  for (const plan of world.jobs) {
    lives.set(await ground.insert({ max_crashes: plan.maxCrashes }), { plan, strikes: 0, hidden: false });
  }
  await ground.dispatch([...lives.keys()]);
  const running = new Map<string, Running>();
  let deaths = 0;
  for (let now = 0; ; now += stepSeconds) {
    if (now > stepsMax * stepSeconds) throw new Error('it never ends');
    if ((await ground.one('select count(*)::integer from pgqueue.queue')) === 0) break;
    for (const [name, member] of members) {
      const free = world.slots - [...running.values()].filter(({ node }) => node === name).length;
      const suspects = await suspected();
      for (const { id, token, position } of free > 0 ? await ground.claim(member, free) : []) {
        if (suspects.has(id))
          expectRoom(
            [...running.values()].filter(({ node }) => node === name),
            now,
          );
        running.set(id, { id, token, position, node: name, began: now, suspect: suspects.has(id) });
      }
    }
    await ground.sql(
      `update pgqueue.work_queue set started = started - $1 * interval '1 s' where lock_key is not null`,
      [stepSeconds],
    );
    const isDue = ({ id, began }: Running): boolean =>
      now + stepSeconds - began >= (lives.get(id)?.plan.seconds ?? 0);
    for (const job of [...running.values()].filter((one) => isDue(one))) {
      const life = lives.get(job.id);
      if (life === undefined || !running.has(job.id)) continue; // it died with another one's node
      if (life.plan.poison) {
        deaths += 1;
        await strike({ job, life, running, lives, expires: world.expires, deaths });
        members.set(job.node, await ground.node(job.node));
      } else {
        expect((await ground.settle([job], 'done')).get(job.id)).toBe('done');
        running.delete(job.id);
      }
    }
  }
  for (const [id, { plan, strikes, hidden }] of lives) {
    const { status } = await ground.job(id);
    if (!plan.poison) continue;
    if (status !== 'dead' || strikes > plan.maxCrashes + (hidden ? 1 : 0)) {
      throw new Error(
        `poison is ${String(status)} after ${strikes} strikes of ${plan.maxCrashes}, hidden: ${hidden}`,
      );
    }
  }
  await ground.sound();
}

const suspected = async (): Promise<ReadonlySet<string>> =>
  new Set((await ground.sql('select id from pgqueue.work_queue where suspect')).map(({ id }) => String(id)));

const crashes = async (): Promise<ReadonlyMap<string, { readonly count: number; readonly dead: boolean }>> =>
  new Map(
    (await ground.sql(`select id, crashes, status = 'dead' as dead from pgqueue.job`)).map((row) => [
      String(row['id']),
      { count: Number(row['crashes']), dead: row['dead'] === true },
    ]),
  );

interface Strike {
  readonly job: Running;
  readonly life: Life;
  readonly running: Map<string, Running>;
  readonly lives: ReadonlyMap<string, Life>;
  readonly expires: readonly boolean[];
  readonly deaths: number;
}

/** Kills a node by its poison. Some leases may run out before that is known. Then checks who is charged. */
async function strike({ job, life, running, lives, expires, deaths }: Strike): Promise<void> {
  const held = [...running.values()].filter(({ node }) => node === job.node);
  const before = await crashes();
  const late = held.filter((_, index) => expires[(deaths + index) % expires.length]).map(({ id }) => id);
  if (late.length > 0) {
    await ground.sql(
      `update pgqueue.work_queue set lock_timeout = clock_timestamp() where id = any ($1::uuid[])`,
      [late],
    );
    await reap(ground.database);
  }
  await resetNode(ground.database, job.node);
  for (const { id } of held) running.delete(id);
  life.strikes += 1;
  met.strikes += 1;
  const after = await crashes();
  const charged = (id: string): boolean => after.get(id)?.count !== before.get(id)?.count;
  if (!charged(job.id)) {
    if (life.strikes > 1) throw new Error('a later strike is not charged to the poison');
    life.hidden = true;
    met.hidden += 1;
  }
  const marked = await suspected();
  for (const one of held) {
    const isDead = after.get(one.id)?.dead === true;
    if (!isDead && !marked.has(one.id)) throw new Error('what was lost is no suspect');
    if (one.id === job.id) continue;
    if (!charged(one.id)) met.spared += 1;
    else if (life.strikes > 1) innocent({ one, isLate: late.length > 0, isDead });
  }
  expect(lives.size).toBe(after.size);
}

interface Charged {
  readonly one: Running;
  readonly isLate: boolean;
  readonly isDead: boolean;
}

/**
 * Checks a node that begins a suspect: it runs no other suspects, or more that have run for a while than
 * young ones.
 */
function expectRoom(held: readonly Running[], now: number): void {
  const suspects = held.filter(({ suspect }) => suspect);
  const young = suspects.filter(({ began }) => now - began < apartSeconds).length;
  if (young >= Math.max(1, suspects.length - young)) throw new Error('suspects begin together');
  if (suspects.length > 0) met.joined += 1;
}

/**
 * Checks a job charged with a later strike of another job: it was a suspect, or its lease had ended before.
 * It is not dead.
 */
function innocent({ one, isLate, isDead }: Charged): void {
  if (!one.suspect && !isLate) throw new Error('charged by a strike of known poison');
  if (isDead) throw new Error("dead of another one's later strike");
}

const property = fc.asyncProperty(aWorld, play);

const poison = (strikesAfter: number): Plan => ({ poison: true, seconds: strikesAfter, maxCrashes: 3 });
const harmless = (takes: number): Plan => ({ poison: false, seconds: takes, maxCrashes: 3 });
const pair = (...jobs: readonly Plan[]): [World] => [{ nodes: 1, slots: 2, jobs, expires: [false] }];
/** Poison whose first strike is blamed on a suspect; one that strikes beside a fresh job; one that lets a suspect join it before it strikes. */
const examples = [
  pair(poison(2.5), harmless(13), poison(1)),
  pair(poison(0.5), harmless(13), harmless(13)),
  pair(poison(7), harmless(13)),
];
const budget = { examples, numRuns: 30, endOnFailure: true };

test('poison is dead after its crashes, and no job is dead of what is known to be poison', async () => {
  await fc.assert(property, budget);
  for (const count of Object.values(met)) expect(count).toBeGreaterThan(0);
}, 600_000);

test.each([
  [
    'a node that runs suspects together',
    'next_suspect',
    /v_young >= greatest\(1, v_held - v_young\)/,
    'false',
  ],
  ['a suspect in its last life beside others', 'next_suspect', /in \(false, v_held = 0\)/, 'is not null'],
  [
    'a suspect that begins beside one in its last life',
    'next_suspect',
    /\(select q.crashes \+ 1 >= q.max_crashes from queue q where q.id = w.id\)\)/,
    'false)',
  ],
  ['a death that is charged to all', 'charged_by_death', /filter \(where [^)]*?'true'\)/, ''],
  [
    'a neighbour that is no suspect',
    'crash_all',
    /suspect = w.suspect or l.here/,
    'suspect = w.suspect or l.charge = 1',
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
    const found = await fc.check(property, { ...budget, numRuns: 300 });
    await ground.sql(source);
    expect(found.failed).toBe(true);
  },
  240_000,
);
