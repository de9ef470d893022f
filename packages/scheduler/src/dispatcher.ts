import type { Database, Leader, TickDue, TickRead } from '@pgqueue/postgres';
import { dispatch, loadPolicyState, readTick } from '@pgqueue/postgres';
import type { Consumption } from './depth.ts';
import { capability, measureConsumption } from './depth.ts';
import type { Settings } from './options.ts';
import type { Planner } from './planner.ts';
import { createPlanner } from './planner.ts';
import type { SkipAhead } from './skip-ahead.ts';
import { createSkipAhead } from './skip-ahead.ts';
import type { Seen } from './tick.ts';
import { ask, cutOff, heldReasons, see, slotsAfter } from './tick.ts';

export interface Dispatcher {
  /** One tick: reads, plans, writes. Resolves to the milliseconds until the next. */
  readonly tick: (leader: Leader) => Promise<number>;
}

export interface DispatcherOptions {
  readonly database: Database;
  readonly settings: Settings;
  /** Whether hints are heard at present; without, a tick that found nothing must come again sooner. */
  readonly hearing: () => boolean;
  /** What the sweeps have to do, as far as this tick could see. */
  readonly onSeen: (overview: TickRead['overview'], due: TickDue | null) => void;
}

/** Ticks in a row that may follow at once although they dispatched nothing: they walk through pages of held jobs. */
const fruitlessMax = 32;
/** How often a tick asks, too, when sweeps are due. */
const dueEveryMs = 50;
/** Without hints, a tick comes at least every 100 ms for so long after the last job. */
const busyMs = 2_000;

/** Owns all that a leader remembers between ticks; nothing of it must be right for what it writes to be right. */
interface Memory {
  readonly planner: Planner;
  readonly consumption: Consumption;
  readonly skipAhead: SkipAhead;
  epoch: number | undefined;
  room: number;
  queues: number;
  capabilities: string;
  cursors: string;
}

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { database, settings, onSeen } = options;
  const { policy, batchMax, observe } = settings;
  const pace = createPace(options);
  const memory: Memory = {
    planner: createPlanner(policy, observe),
    consumption: measureConsumption(),
    skipAhead: createSkipAhead(),
    epoch: undefined,
    room: batchMax,
    queues: 1,
    capabilities: '',
    cursors: '',
  };
  const { planner, consumption, skipAhead } = memory;

  const tick = async (leader: Leader): Promise<number> => {
    const startedAt = performance.now();
    await begin(database, settings, memory, leader);
    const asked = ask(memory.room, memory.queues, batchMax);
    const read = await readTick(database, {
      ...asked,
      ...skipAhead.starts(startedAt),
      cursors: planner.cursors(),
      due: pace.asksDue(),
    });
    onSeen(read.overview, read.due);
    consumption.sample(read.overview);
    const seen = see(read, asked, { ...settings, consumption });
    rememberNodes(memory, read);
    skipAhead.note({ ...seen, candidates: read.candidates, nowMs: startedAt });
    const plan = planner.plan(seen.snapshot);
    const written = await write(database, settings, { memory, leader, seen, plan });
    [memory.room, memory.queues] = [seen.room, Math.max(1, seen.queues)];
    observe({
      type: 'tick',
      dispatched: written,
      held: heldReasons(plan.held, read.overview.queues),
      durationMs: performance.now() - startedAt,
    });
    const walking = skipAhead.walking();
    const progress = cursorsMoved(memory) || written > 0 || walking;
    const after = slotsAfter(seen.snapshot, plan.dispatch);
    const more =
      plan.dispatch.length >= batchMax ||
      (seen.room > 0 && walking) ||
      (progress && cutOff(seen, asked, after, read.candidates));
    return pace.next({ jobs: written, more });
  };
  return { tick };
}

/** The first tick of a reign begins from what the last leader saved. */
async function begin(
  database: Database,
  { policy, batchMax }: Settings,
  memory: Memory,
  leader: Leader,
): Promise<void> {
  if (memory.epoch === leader.epoch) return;
  memory.planner.restore(await loadPolicyState(database, policy.name));
  memory.skipAhead.reset();
  memory.consumption.forget();
  [memory.room, memory.queues] = [batchMax, 1];
  memory.epoch = leader.epoch;
}

async function write(
  database: Database,
  { policy }: Settings,
  tick: {
    readonly memory: Memory;
    readonly leader: Leader;
    readonly seen: Seen;
    readonly plan: ReturnType<Planner['plan']>;
  },
): Promise<number> {
  const { memory, leader, seen, plan } = tick;
  if (plan.dispatch.length === 0) return 0;
  try {
    const { dispatch: jobs, state } = plan;
    const input = { ...leader, jobs, policy: policy.name, state, notify: true };
    const written = await dispatch(database, input);
    if (state !== null) memory.planner.saved();
    const waiting = new Map(seen.snapshot.candidates.map((job) => [job.id, job]));
    memory.consumption.dispatched(
      jobs.flatMap(({ id, pool }) => {
        const job = written.has(id) ? waiting.get(id) : undefined;
        return job === undefined ? [] : [{ pool, task: job.task, version: job.version }];
      }),
    );
    return written.size;
  } catch (error) {
    memory.consumption.forget();
    throw error;
  }
}

/** Jobs that no node could run may have a place now. */
function rememberNodes(memory: Memory, { overview }: TickRead): void {
  const able = overview.nodes.map((node) => `${node.pool} ${capability(node)}`).toSorted();
  const capabilities = [...new Set(able)].join('\n');
  if (capabilities !== memory.capabilities) memory.skipAhead.reset();
  memory.capabilities = capabilities;
}

function cursorsMoved(memory: Memory): boolean {
  const cursors = JSON.stringify(memory.planner.cursors());
  const moved = cursors !== memory.cursors;
  memory.cursors = cursors;
  return moved;
}

interface Pace {
  readonly asksDue: () => boolean;
  readonly next: (tick: { readonly jobs: number; readonly more: boolean }) => number;
}

/** How long to wait: not at all while there is more, little while busy, ever longer while idle. */
function createPace({ settings, hearing }: DispatcherOptions): Pace {
  const { min, max } = settings.pollMs;
  let delayMs = min;
  let fruitless = 0;
  let busyAt = -Infinity;
  let askedAt = -Infinity;
  let asked = false;

  const longest = (): number => {
    if (hearing()) return max;
    return Math.min(max, performance.now() - busyAt < busyMs ? 100 : 500);
  };
  return {
    asksDue: () => {
      asked = performance.now() - askedAt >= dueEveryMs;
      if (asked) askedAt = performance.now();
      return asked;
    },
    next: ({ jobs, more }) => {
      if (jobs > 0) busyAt = performance.now();
      fruitless = jobs > 0 ? 0 : fruitless + 1;
      if (more && fruitless < fruitlessMax) return 0;
      delayMs = jobs > 0 || more ? min : Math.min(longest(), delayMs * 2);
      return asked ? delayMs : Math.min(delayMs, dueEveryMs);
    },
  };
}
