import type { BatchOperation } from './batch-model.ts';
import { applyToBatch, isOfBatches, one, passesBatches } from './batch-model.ts';
import type { Effect, JobState, NodeId, Outcome, Where, World } from './job.ts';
import { isAlive, isHeld, limits, standsInQueue, unleased } from './job.ts';

// Model of each operation's effect on a job. Pure: effects of SQL functions on several jobs are checked job
// by job.

/** One operation on all jobs; `outcomes` has one for each job. n1 holds its leases under token `t1`. */
export type Operation = JobOperation | BatchOperation;

export type JobOperation =
  | { readonly kind: 'tick' }
  | { readonly kind: 'promote' }
  | { readonly kind: 'claim'; readonly node: NodeId }
  | { readonly kind: 'extend' }
  | { readonly kind: 'settle'; readonly outcomes: readonly Outcome[] }
  | { readonly kind: 'release' }
  | { readonly kind: 'reset' }
  | { readonly kind: 'beat' }
  | { readonly kind: 'leave' }
  | { readonly kind: 'register' }
  | { readonly kind: 'lose' }
  | { readonly kind: 'miss' }
  | { readonly kind: 'steal' }
  | { readonly kind: 'cancel' }
  | { readonly kind: 'redrive' };

const passing: ReadonlySet<JobOperation['kind']> = new Set<JobOperation['kind']>([
  'tick',
  'promote',
  'claim',
  'steal',
  'lose',
  'miss',
  'cancel',
]);

/** True if the operation may pass over a job that another transaction has locked. */
export function passesOver(operation: Operation, { job }: World): boolean {
  if (isOfBatches(operation)) return passesBatches(operation);
  return passing.has(operation.kind) || (operation.kind === 'release' && job.row !== 'own');
}

/** Returns the answer to the caller about a job that was passed over. */
export function toldOver(operation: Operation, { job }: World, which: number): string | undefined {
  if (!standsInQueue(job)) return undefined;
  return operation.kind === 'cancel' || (operation.kind === 'cancelOne' && which === one)
    ? 'busy'
    : undefined;
}

/**
 * Applies the operation to a job. @param which the job's index, which selects its outcome @param token the
 * token that a claim draws
 */
export function apply(operation: Operation, world: World, which: number, token: string): Effect {
  return isOfBatches(operation)
    ? applyToBatch(operation, world, which, token)
    : applyToJob(operation, world, which, token);
}

function applyToJob(operation: JobOperation, world: World, which: number, token: string): Effect {
  const { job } = world;
  const none: Effect = { world, told: undefined };
  const to = (next: Partial<JobState>, told?: string): Effect => ({
    world: { ...world, job: { ...job, ...next } },
    told,
  });
  const held = isHeld(job);
  const lives = isAlive(world);
  switch (operation.kind) {
    case 'tick':
      return job.where === 'pending' ? to({ where: 'ready' }, 'scheduled') : none;
    case 'promote':
      return job.where === 'delayed' ? to({ where: 'pending' }) : none;
    case 'claim':
      if (operation.node === 'n1' && !lives) return { world, told: 'PQ001' };
      if (job.where !== 'ready') return none;
      return to({ where: 'running', token, node: operation.node, row: 'own' }, 'claimed');
    case 'extend':
      if (!held || job.row !== 'own') return none;
      return to({ expired: false }, job.stop ? 'cancelled' : 'held');
    case 'settle':
      return held && job.row === 'own' ? settle(world, operation.outcomes[which] ?? 'done') : none;
    case 'release':
      if (!held) return none;
      return to({ ...unleased, where: job.stop ? 'cancelled' : 'ready' }, 'released');
    case 'reset':
      return takenBack({ ...world, n1: 'ended' });
    case 'beat':
      return lives ? { world: { ...world, n1: 'beats' }, told: 'beats' } : { world, told: 'ended' };
    case 'leave': {
      if (!lives) return none;
      const where = job.stop ? 'cancelled' : 'ready';
      const left = onN1(job) ? { ...job, ...unleased, where } : job;
      return { world: { n1: 'ended', job: left as JobState }, told: 'left' };
    }
    case 'register':
      if (world.n1 === 'beats' || world.n1 === 'gone' || world.n1 === 'replaced')
        return { world, told: 'refused' };
      return { ...takenBack({ ...world, n1: 'replaced' }), told: 'registered' };
    case 'miss':
      if (world.n1 === 'gone') return { ...takenBack({ ...world, n1: 'ended' }), told: undefined };
      return applyToJob({ kind: 'lose' }, world, which, token);
    case 'lose':
      return world.n1 === 'silent' ? { ...takenBack({ ...world, n1: 'ended' }), told: undefined } : none;
    case 'steal':
      return job.where === 'running' && job.expired ? crash(world) : none;
    case 'cancel':
      if (!standsInQueue(job)) return none;
      return job.where === 'running'
        ? to({ stop: true, row: 'own' }, 'signalled')
        : to({ where: 'cancelled', row: 'own' }, 'cancelled');
    case 'redrive':
      return job.where === 'dead' ? to({ where: 'pending', tries: 0, crashes: 0 }, 'redriven') : none;
    default:
      return operation satisfies never;
  }
}

const onN1 = ({ where, node }: JobState): boolean => where === 'running' && node === 'n1';

function takenBack(world: World): Effect {
  return onN1(world.job) ? crash(world) : { world, told: undefined };
}

function crash(world: World): Effect {
  const { job } = world;
  const crashes = job.crashes + 1;
  const where = job.stop ? 'cancelled' : crashes >= limits.crashes ? 'dead' : 'ready';
  return { world: { ...world, job: { ...job, ...unleased, where, crashes } }, told: where };
}

function settle(world: World, outcome: Outcome): Effect {
  const { job } = world;
  const tries = job.tries + (outcome === 'retry' || outcome === 'dead' ? 1 : 0);
  const where = settled(job, outcome, tries);
  const told = where === 'delayed' ? outcome : where;
  return { world: { ...world, job: { ...job, ...unleased, where, tries } }, told };
}

function settled({ stop }: JobState, outcome: Outcome, tries: number): Where {
  if (outcome === 'done' || outcome === 'dead') return outcome;
  if (stop) return 'cancelled';
  return outcome === 'retry' && tries >= limits.tries ? 'dead' : 'delayed';
}
