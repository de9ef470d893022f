import type { Effect, JobState, NodeId, World } from './job.ts';
import { isAlive, isHeld, standsInQueue, unleased } from './job.ts';

// Model of the operations on batches, and their effect on each job. A batch is whole, or taken apart: an
// operation on one of its jobs changes the rows of the others too.

/** An operation on batches. `one`: the job that it acts on, while the others stand in the same batch. */
export type BatchOperation =
  | { readonly kind: 'tickTogether' }
  | { readonly kind: 'takeBack' }
  | { readonly kind: 'takeBackOne' }
  | { readonly kind: 'claimRows'; readonly node: NodeId }
  /** Finds the batch by the position it started at, or by that of the rest after jobs were taken out. */
  | { readonly kind: 'settleRows' | 'releaseRows'; readonly of: 'whole' | 'rest' }
  | { readonly kind: 'takeOut' }
  | { readonly kind: 'takeApart' }
  | { readonly kind: 'progress' }
  | { readonly kind: 'checkpoint' }
  | { readonly kind: 'cancelOne' }
  | { readonly kind: 'releaseClaim' }
  | { readonly kind: 'beatHolding' };

/** The job that is taken out, or reports progress: the last of the batch. */
export const out = 0;
/** The job that is cancelled, or taken back: the middle one. */
export const one = 1;

/** True if the operation passes over a locked row, or reports that there is no batch. */
const passes: Readonly<Record<BatchOperation['kind'], boolean>> = {
  tickTogether: true,
  takeBack: true,
  takeBackOne: true,
  claimRows: true,
  settleRows: false,
  releaseRows: false,
  takeOut: true,
  takeApart: true,
  progress: false,
  checkpoint: false,
  cancelOne: true,
  releaseClaim: false,
  beatHolding: false,
};

export function isOfBatches(operation: { readonly kind: string }): operation is BatchOperation {
  return Object.hasOwn(passes, operation.kind);
}

export function passesBatches({ kind }: BatchOperation): boolean {
  return passes[kind];
}

export function applyToBatch(operation: BatchOperation, world: World, which: number, token: string): Effect {
  const { job } = world;
  const none: Effect = { world, told: undefined };
  const to = (next: Partial<JobState>, told?: string): Effect => ({
    world: { ...world, job: { ...job, ...next } },
    told,
  });
  const held = isHeld(job);
  switch (operation.kind) {
    case 'tickTogether':
      return job.where === 'pending' ? to({ where: 'ready', row: 'new' }, 'scheduled') : none;
    case 'takeBack':
      return job.where === 'ready' ? to({ where: 'pending', row: 'own' }, 'back') : to({ row: 'own' });
    case 'takeBackOne':
      if (which !== one) return to({ row: 'own' }); // every batch here has the one in it
      return job.where === 'ready' ? to({ where: 'pending', row: 'own' }, 'back') : to({ row: 'own' });
    case 'claimRows':
      if (operation.node === 'n1' && !isAlive(world)) return { world, told: 'PQ001' };
      return job.where === 'ready' ? to({ where: 'running', token, node: operation.node }, 'claimed') : none;
    case 'settleRows':
      return held && job.row === operation.of ? to({ ...unleased, where: 'done' }, 'done') : none;
    case 'releaseRows':
      if (!held || job.row !== operation.of) return none;
      return to({ ...unleased, row: job.row, where: 'ready' }, 'released');
    case 'takeOut':
      if (!held || job.row === 'own' || job.row === 'new') return none;
      return which === out ? to({ row: 'own' }) : to({ row: 'rest' }, 'rest');
    case 'takeApart':
      return held && job.row !== 'new' ? to({ row: 'own' }) : none;
    case 'progress':
    case 'checkpoint':
      return held && job.row === 'own' && which === out ? to({}, 'kept') : none;
    case 'cancelOne':
      if (which !== one) return to({ row: 'own' }); // every batch here has the one in it
      if (!standsInQueue(job)) return none;
      return job.where === 'running'
        ? to({ stop: true, row: 'own' }, 'signalled')
        : to({ where: 'cancelled', row: 'own' }, 'cancelled');
    case 'releaseClaim':
      return releaseClaim(world);
    case 'beatHolding':
      if (!isAlive(world)) return { world, told: 'ended' };
      return { world: { ...world, n1: 'beats' }, told: held ? 'held' : 'lost' };
    default:
      return operation satisfies never;
  }
}

/** Takes all batches of n1 apart, and releases the jobs that it holds under `t1`. */
function releaseClaim(world: World): Effect {
  const { job } = world;
  if (job.node !== 'n1') return { world, told: undefined };
  const where = job.stop ? 'cancelled' : 'ready';
  const next = isHeld(job) ? { ...unleased, where } : ({ row: 'own' } as const);
  return { world: { ...world, job: { ...job, ...next } as JobState }, told: undefined };
}
