import { answerOf } from '../answer.ts';
import { unreachable } from '../../errors.ts';
import type { Shape } from '../../options/options.ts';
import { aFunction, optional } from '../../options/options.ts';
import { aName, checkPart } from '../check-part.ts';
import { madeWith } from '../made-with.ts';
import type { Gate, OpenGate } from '../gate.ts';
import type { Hold } from '../policy.ts';
import { neverMs } from '../policy.ts';
import type { Candidate, InFlight, JobFacts, Lane, Snapshot } from '../snapshot.ts';
import { laneName } from '../snapshot.ts';
import { sayGroup, sayTime } from './state/format.ts';

/** Options of {@link ordered}: the keys that keep strict order. */
export interface OrderedOptions {
  /** Default `ordered`. */
  readonly name?: string;
  /**
   * Selects the ordered keys, by one of their jobs. Must depend on the job's queue and key only. Default:
   * all.
   */
  readonly when?: (job: JobFacts) => boolean;
}

const shape: Shape<OrderedOptions> = { name: optional(aName), when: optional(aFunction) };

/**
 * Runs the jobs of a key strictly one after the other, through completion.
 *
 * A job goes only if no other job of its key is in flight, waits for its retry, waits for the end of a
 * snooze, or waits in its handler for jobs or a signal. A job that is dead, cancelled or expired lets the next one go. Waiting jobs keep the order of their
 * key: by priority, then as they were enqueued. A plan dispatches one job of an ordered key. That job never
 * goes in a bundle, whose jobs could end differently.
 *
 * Name this gate behind all others. It asks for lanes to be read again before their jobs go, which is wasted
 * for jobs that another rule holds. Jobs that are enqueued in concurrent transactions have no order before
 * they commit.
 * @throws {PgQueueError} `configuration`
 */
export function ordered(options: OrderedOptions = {}): Gate {
  checkPart('gate', 'ordered', { options, shape });
  const { name = 'ordered', when = (): boolean => true } = options;
  const gate: Gate = {
    name,
    onError: 'hold',
    tellsTime: true,
    open: (snapshot) => openOrdered(snapshot, when),
  };
  return madeWith(options, gate);
}

/** Reason why a job of an ordered lane has to wait. */
type Obstacle =
  | { readonly kind: 'unread' }
  | { readonly kind: 'in_flight'; readonly item: InFlight }
  | { readonly kind: 'retry'; readonly dueMs: number }
  | { readonly kind: 'planned' }
  | { readonly kind: 'behind'; readonly first: Candidate | undefined };

function openOrdered(snapshot: Snapshot, when: (job: JobFacts) => boolean): OpenGate {
  let inFlight: ReadonlyMap<string, InFlight> | undefined;
  const planned = new Set<string>();
  const unread = new Set<Lane>();
  let nextMs: number | null = null;

  const find = (job: Candidate, lane: Lane): Obstacle | undefined => {
    const name = laneName(job);
    if (planned.has(name)) return { kind: 'planned' };
    inFlight ??= new Map(snapshot.inFlight.map((item) => [laneName(item), item]));
    const item = inFlight.get(name);
    if (item !== undefined) return { kind: 'in_flight', item };
    const dueMs = lane.retryDueMs;
    // a retry that is not due yet still waits, however old the read is
    if (dueMs !== null && (lane.fresh || dueMs > snapshot.nowMs)) return { kind: 'retry', dueMs };
    if (!lane.fresh) return { kind: 'unread' };
    const first = lane.skipped === true ? undefined : lane.jobs[0];
    return first?.id === job.id ? undefined : { kind: 'behind', first };
  };

  return {
    admits: (job, lane, member) => {
      if (!answerOf('when', when(job))) return 'admit';
      if (member) return 'hold';
      const obstacle = find(job, lane);
      if (obstacle === undefined) return 'admit';
      if (obstacle.kind === 'unread') unread.add(lane);
      // a retry that is due already needs no wake-up: the next read of the lane shows it
      if (obstacle.kind === 'retry' && obstacle.dueMs > snapshot.nowMs && obstacle.dueMs < neverMs) {
        nextMs = Math.min(nextMs ?? Infinity, obstacle.dueMs);
      }
      return 'hold_lane';
    },
    take: (job) => {
      planned.add(laneName(job));
    },
    why: (job, lane) => explain(job, find(job, lane)),
    nextMs: () => nextMs,
    unread: () => [...unread],
  };
}

function explain(job: Candidate, obstacle: Obstacle | undefined): Omit<Hold, 'gate'> {
  const line = `${sayGroup('key', job.key)} of queue ${job.queue} is ordered:`;
  if (obstacle === undefined) return { message: 'it may go', untilMs: null };
  switch (obstacle.kind) {
    case 'unread':
      return { message: `${line} its jobs are about to be read anew`, untilMs: null, paced: true };
    case 'in_flight': {
      const { id, state } = obstacle.item;
      return { message: `${line} its job ${id} is ${state}`, untilMs: null, paced: true };
    }
    case 'retry': {
      const { dueMs } = obstacle;
      const waits = dueMs < neverMs ? `waits until ${sayTime(dueMs)} to run again` : 'waits in its handler';
      return { message: `${line} one of its jobs ${waits}`, untilMs: dueMs };
    }
    case 'planned':
      return { message: `${line} another job of it has just gone`, untilMs: null, paced: true };
    case 'behind': {
      const first = obstacle.first === undefined ? 'another job of it' : `its job ${obstacle.first.id}`;
      return { message: `${line} ${first} goes first`, untilMs: null, paced: true };
    }
    default:
      return unreachable(obstacle);
  }
}
