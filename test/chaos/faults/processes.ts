// Faults of workers and schedulers: killed, frozen, blocked, out of memory, stopped in order, given a wrong
// time.
import { createOperator } from '@pgqueue/postgres';
import { until } from '../../support/until.ts';
import type { FaultMaker } from '../fault.ts';
import type { Fleet, Role } from '../fleet.ts';
import { leaseMs } from '../workload.ts';
import type { Arena } from './arena.ts';
import { askOnce, nothing, pick } from './arena.ts';

const threeLeasesMs = 3 * leaseMs + 500;

async function gone(fleet: Fleet, name: string): Promise<void> {
  await until(`${name} to end`, () => fleet.actor(name) === undefined, 60_000);
}

async function kill(fleet: Fleet, name: string): Promise<void> {
  fleet.take(name);
  fleet.actor(name)?.signal('SIGKILL');
  await gone(fleet, name);
}

/**
 * Returns the name of the leading scheduler; undefined while there is none or the database does not answer.
 */
async function leaderOf({ server, fleet }: Arena): Promise<string | undefined> {
  const [row] = await askOnce<{ readonly leader: string | null }>(
    server,
    'select leader from pgqueue.scheduler_lease where expires > clock_timestamp()',
  );
  return fleet.names('scheduler').find((name) => row?.leader?.startsWith(name) === true);
}

async function leader(arena: Arena): Promise<string> {
  let name: string | undefined;
  await until('a leader', async () => (name = await leaderOf(arena)) !== undefined, 15_000);
  return name ?? '';
}

export function workerFaults(arena: Arena): readonly FaultMaker[] {
  const { fleet } = arena;
  const target = (random: () => number): string => pick(fleet.names('worker'), random);
  const tell = (name: string, what: string): void => {
    if (fleet.actor(name)?.tell(what) !== true) throw new Error(`${name} does not run`);
  };
  return [
    {
      kind: 'worker-kill',
      lastsMs: [0, 3_000],
      takes: ['worker'],
      make: (random) => {
        const name = target(random);
        return {
          kind: 'worker-kill',
          target: name,
          start: () => kill(fleet, name),
          heal: () => fleet.giveBack(name),
        };
      },
    },
    {
      kind: 'worker-freeze',
      lastsMs: [threeLeasesMs, threeLeasesMs + 1_000],
      takes: ['worker'],
      make: (random) => frozen(fleet, 'worker-freeze', () => Promise.resolve(target(random))),
    },
    {
      kind: 'worker-block',
      lastsMs: [threeLeasesMs, threeLeasesMs],
      takes: ['worker'],
      make: (random) => {
        const name = target(random);
        const start = (): void => tell(name, `block ${threeLeasesMs}`);
        return { kind: 'worker-block', start, heal: nothing };
      },
    },
    outOfMemory(fleet, target, tell),
    stopped(arena, {
      kind: 'worker-stop',
      role: 'worker',
      choose: (random) => Promise.resolve(target(random)),
    }),
    {
      kind: 'node-reset',
      lastsMs: [0, 0],
      takes: ['worker'],
      make: (random) => {
        const name = target(random);
        return { kind: 'node-reset', target: name, start: () => reset(arena, name), heal: nothing };
      },
    },
  ];
}

function outOfMemory(
  fleet: Fleet,
  target: (random: () => number) => string,
  tell: (name: string, what: string) => void,
): FaultMaker {
  return {
    kind: 'worker-oom',
    lastsMs: [0, 1_000],
    takes: ['worker'],
    make: (random) => {
      const name = target(random);
      return {
        kind: 'worker-oom',
        target: name,
        start: async () => {
          fleet.take(name);
          tell(name, 'hog');
          await gone(fleet, name);
        },
        heal: () => fleet.giveBack(name),
      };
    },
  };
}

async function reset({ server, write }: Arena, node: string): Promise<void> {
  const operator = createOperator({ connectionString: server.adminUrl, connectionsMax: 1 });
  try {
    write({ type: 'reset', node });
    await operator.nodes.reset(node);
  } finally {
    await operator.close();
  }
}

type Chosen = (random: () => number) => Promise<string>;

/** Freezes a process by a signal and wakes it later: it has missed everything, and does not know. */
function frozen(fleet: Fleet, kind: string, choose: () => Promise<string>): ReturnType<FaultMaker['make']> {
  let name: string | undefined;
  return {
    kind,
    start: async () => {
      name = await choose();
      fleet.actor(name)?.signal('SIGSTOP');
    },
    heal: () => {
      if (name !== undefined) fleet.actor(name)?.signal('SIGCONT');
    },
  };
}

/** Stops a process in order, and starts it again. */
function stopped(
  { fleet }: Arena,
  { kind, role, choose }: { readonly kind: string; readonly role: Role; readonly choose: Chosen },
): FaultMaker {
  return {
    kind,
    lastsMs: [0, 1_500],
    takes: [role === 'worker' ? 'worker' : 'scheduler'],
    make: (random) => {
      let name: string | undefined;
      return {
        kind,
        start: async () => {
          name = await choose(random);
          fleet.take(name);
          await fleet.actor(name)?.stop();
        },
        heal: async () => {
          if (name !== undefined) await fleet.giveBack(name);
        },
      };
    },
  };
}

export function schedulerFaults(arena: Arena): readonly FaultMaker[] {
  const { fleet, proxies } = arena;
  const killed = (kind: string, choose: () => Promise<readonly string[]>): FaultMaker => ({
    kind,
    lastsMs: [0, 2_500],
    takes: ['scheduler'],
    make: () => {
      let names: readonly string[] = [];
      return {
        kind,
        start: async () => {
          names = await choose();
          await Promise.all(names.map((name) => kill(fleet, name)));
        },
        heal: async () => {
          await Promise.all(names.map((name) => fleet.giveBack(name)));
        },
      };
    },
  });
  return [
    killed('scheduler-kill', async () => [await leader(arena)]),
    killed('scheduler-kill-mid-batch', async () => {
      const name = await leader(arena);
      const before = proxies.schedulers.cuts();
      proxies.schedulers.cutReplyOf('.dispatch(');
      await until('a batch', () => proxies.schedulers.cuts() > before, 10_000);
      return [name];
    }),
    killed('schedulers-kill-all', () => Promise.resolve(fleet.names('scheduler'))),
    {
      kind: 'scheduler-freeze',
      lastsMs: [2_000, 5_000],
      takes: ['scheduler'],
      make: () => frozen(fleet, 'scheduler-freeze', () => leader(arena)),
    },
    stopped(arena, { kind: 'leader-change', role: 'scheduler', choose: () => leader(arena) }),
  ];
}

/** Makes the clocks of nodes jump while they run. Their clocks only pace loops. */
export function clockFaults({ fleet }: Arena): readonly FaultMaker[] {
  const clocked = [...fleet.names('worker'), ...fleet.names('scheduler')].filter(
    (name) => fleet.clock(name) !== undefined,
  );
  return [
    {
      kind: 'node-clock',
      lastsMs: [1_500, 5_000],
      takes: [],
      ...(clocked.length > 0 ? {} : { missing: 'libfaketime is not installed' }),
      make: (random) => {
        const name = pick(clocked, random);
        const offsetSeconds = random() < 0.5 ? -7_200 : 7_200;
        return {
          kind: 'node-clock',
          start: () => fleet.clock(name)?.set(offsetSeconds),
          heal: () => fleet.clock(name)?.set(0),
        };
      },
    },
  ];
}
