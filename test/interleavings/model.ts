// One job as the tables have it, and what each operation makes of it. Pure: what SQL functions do to two jobs at once is checked job by job.

export type Where = 'pending' | 'delayed' | 'ready' | 'running' | 'done' | 'cancelled' | 'dead';

export interface JobState {
  readonly where: Where;
  readonly tries: number;
  readonly crashes: number;
  /** Of the lease; null without one. */
  readonly token: string | null;
  readonly node: NodeId | null;
  /** Its lease has run out. */
  readonly expired: boolean;
  /** Its cancellation was asked for. */
  readonly stop: boolean;
}

export type NodeId = 'n1' | 'n2';

/** `gone`: it was heard of late, but its session is not there any more; `replaced`: another incarnation has its id. */
export type NodeState = 'beats' | 'silent' | 'gone' | 'ended' | 'replaced';

/** A job, and the node n1. */
export interface World {
  readonly job: JobState;
  readonly n1: NodeState;
}

export type Outcome = 'done' | 'retry' | 'snooze' | 'dead';

/** One operation, on both jobs; `outcomes` one for each. Tokens: n1 holds its leases under `t1`. */
export type Operation =
  | { readonly kind: 'tick' }
  | { readonly kind: 'promote' }
  | { readonly kind: 'claim'; readonly node: NodeId }
  | { readonly kind: 'extend' }
  | { readonly kind: 'settle'; readonly outcomes: readonly [Outcome, Outcome] }
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

/** What became of the job, and what the caller was told of it; undefined: nothing. */
export interface Effect {
  readonly world: World;
  readonly told: string | undefined;
}

export const limits = { tries: 3, crashes: 3 } as const;

/** Whether the operation may pass a job over that another transaction has locked. */
export function passesOver({ kind }: Operation): boolean {
  return (
    kind === 'tick' ||
    kind === 'promote' ||
    kind === 'claim' ||
    kind === 'steal' ||
    kind === 'lose' ||
    kind === 'miss' ||
    kind === 'cancel'
  );
}

/** What the caller is told of a job that was passed over. */
export function toldOver(operation: Operation, { job }: World): string | undefined {
  return operation.kind === 'cancel' && standsInQueue(job) ? 'busy' : undefined;
}

const standsInQueue = ({ where }: JobState): boolean =>
  where !== 'done' && where !== 'cancelled' && where !== 'dead';

const unleased = { token: null, node: null, expired: false, stop: false } as const;

/** @param which the job's place among the two: which outcome it gets. @param token what a claim draws */
export function apply(operation: Operation, world: World, which: 0 | 1, token: string): Effect {
  const { job } = world;
  const none: Effect = { world, told: undefined };
  const to = (next: Partial<JobState>, told?: string): Effect => ({
    world: { ...world, job: { ...job, ...next } },
    told,
  });
  const held = job.where === 'running' && job.token === 't1';
  const lives = world.n1 === 'beats' || world.n1 === 'silent' || world.n1 === 'gone';
  switch (operation.kind) {
    case 'tick':
      return job.where === 'pending' ? to({ where: 'ready' }, 'scheduled') : none;
    case 'promote':
      return job.where === 'delayed' ? to({ where: 'pending' }) : none;
    case 'claim':
      if (operation.node === 'n1' && !lives) return { world, told: 'PQ001' };
      return job.where === 'ready' ? to({ where: 'running', token, node: operation.node }, 'claimed') : none;
    case 'extend':
      return held ? to({ expired: false }, job.stop ? 'cancelled' : 'held') : none;
    case 'settle':
      return held ? settle(world, operation.outcomes[which]) : none;
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
      return apply({ kind: 'lose' }, world, which, token);
    case 'lose':
      return world.n1 === 'silent' ? { ...takenBack({ ...world, n1: 'ended' }), told: undefined } : none;
    case 'steal':
      return job.where === 'running' && job.expired ? crash(world) : none;
    case 'cancel':
      if (!standsInQueue(job)) return none;
      return job.where === 'running'
        ? to({ stop: true }, 'signalled')
        : to({ where: 'cancelled' }, 'cancelled');
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
