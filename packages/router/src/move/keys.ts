import { PgQueueError } from '@pgqueue/core';
import type { Rule, Shape } from '@pgqueue/core/internal';
import { aFunction, anything, aText, optional, optionProblems, throwProblems } from '@pgqueue/core/internal';
import type { Actor } from '@pgqueue/postgres';
import { noteAction, noteResult } from '@pgqueue/postgres/internal';
import type { Member } from '../installations/member.ts';
import type { KeyMoved, MoveParts, MoveWish } from './move.ts';
import { findMove, moveKey } from './move.ts';
import type { MovePlan, Rebalanced, RebalanceWish } from './rebalance.ts';
import { activeOf, planMove, planRebalance, rebalance } from './rebalance.ts';
import type { MoveProgress } from './steps.ts';

/** Options of moves that are made. */
export interface MoveOptions {
  /** Called after each slice of jobs, and while jobs that still run are waited for. */
  readonly onProgress?: (progress: MoveProgress) => void;
  /** Stops between two slices. The key stays on its way until the move is repeated. */
  readonly signal?: AbortSignal;
}

/** Options of a move of one key. */
export interface MoveKeyOptions extends MoveOptions {
  /** Name or number of the installation that is to be its home. */
  readonly to: string | number;
}

/** Options that say which keys belong elsewhere. */
export interface RebalanceOptions {
  /** Name or number of an installation that is to have no keys: they go to the others. Default: none. */
  readonly drain?: string | number;
  /**
   * Name or number of an installation that is new, and `draining` in the list until its keys have come. Default: none.
   */
  readonly add?: string | number;
}

/**
 * Moves of keys between installations, while they are enqueued to and worked on. New jobs go to the new home, and wait
 * there until the old one has handed over those that wait, and has ended those that run. Each job runs where it is at
 * last, once; order within the key is kept. Jobs of flows, and jobs that have waited for flows or signals of their own,
 * stay and end in the old home. A call that fails, or whose process ends, leaves the key on its way: repeat it.
 */
export interface KeysOperator {
  /**
   * Moves a key, and resolves when it is settled there. Needs both installations; any other one that does not answer
   * gets its copy of the route by `check({ mend: true })`.
   * @throws {PgQueueError} `configuration`: no such installation, or one that is draining; it is there already, or moves
   * elsewhere; then nothing was changed. `schema_version`: the two differ. `installation`: one of them failed
   */
  readonly move: (key: string, options: MoveKeyOptions) => Promise<KeyMoved>;
  /** Says what `move` would do; counts the jobs. @throws {PgQueueError} as `move` */
  readonly plan: (key: string, options: Pick<MoveKeyOptions, 'to'>) => Promise<MovePlan>;
  /**
   * Moves all keys to where they belong: those with jobs in an installation that is not their home, as after a change of
   * the list. With `drain`, those of that installation alone, also by the routes to it. Keys that another route names stay.
   * @throws {PgQueueError} `configuration`, `installation`: one does not answer; nothing was changed
   */
  readonly rebalance: (options?: RebalanceOptions & MoveOptions) => Promise<Rebalanced>;
  /** Says what `rebalance` would do. @throws {PgQueueError} as `rebalance` */
  readonly planRebalance: (options?: RebalanceOptions) => Promise<MovePlan>;
}

const aKey = aText({ min: 1, max: 200 });
const anInstallation: Rule = {
  expected: 'the name or the number of an installation',
  judge: (value) => typeof value === 'string' || typeof value === 'number',
};
const optionsShape: Shape<MoveOptions> = { onProgress: optional(aFunction), signal: optional(anything) };
const moveShape: Shape<MoveKeyOptions & { readonly key: string }> = {
  key: aKey,
  to: anInstallation,
  ...optionsShape,
};
const rebalanceShape: Shape<RebalanceOptions & MoveOptions> = {
  drain: optional(anInstallation),
  add: optional(anInstallation),
  ...optionsShape,
};

export interface KeysParts extends MoveParts {
  readonly actor: Actor | undefined;
  /** Throws when the router was closed. */
  readonly use: () => void;
  /** @throws {PgQueueError} `configuration`: there is no such installation */
  readonly memberOf: (installation: string | number) => Member;
}

export function operateKeys(parts: KeysParts): KeysOperator {
  const { use, memberOf, members, actor } = parts;
  const wishOf = (key: string, options: MoveKeyOptions): MoveWish => {
    use();
    throwProblems('configuration', 'a move', optionProblems({ ...options, key }, moveShape));
    const to = memberOf(options.to);
    if (to.installation.state === 'draining')
      throw new PgQueueError(
        'configuration',
        `installation ${to.installation.name} is draining: move the key to another one, or make it active in the list`,
      );
    return { key, to, onProgress: options.onProgress, signal: options.signal };
  };
  const rebalanceOf = (options: RebalanceOptions): RebalanceWish => {
    use();
    throwProblems('configuration', 'a rebalance', optionProblems(options, rebalanceShape));
    const [drain, add] = [options.drain, options.add].map((one) =>
      one === undefined ? undefined : memberOf(one),
    );
    if (activeOf(members, { drain, add }).length === 0)
      throw new PgQueueError(
        'configuration',
        'no active installation would be left: at least one must be active',
      );
    return { drain, add };
  };
  /** Moves a key, and notes in its new home who did. */
  const move = async (wish: MoveWish): Promise<KeyMoved> => {
    if (actor === undefined) return moveKey(parts, wish);
    const { key: target, to } = wish;
    const action = { actor, action: 'key.move', target, details: { to: to.installation.name } };
    const line = await to.run(() => noteAction(to.patient(), action));
    const moved = await moveKey(parts, wish);
    const { from, jobs } = moved;
    // the move is made: a failure to note its result undoes nothing
    await noteResult(to.patient(), line, { from, jobs }).catch(() => false);
    return moved;
  };
  return {
    move: async (key, options) => move(wishOf(key, options)),
    plan: async (key, options) => {
      const wish = wishOf(key, options);
      return planMove(await findMove(parts, wish), wish);
    },
    rebalance: async (options = {}) => {
      const { onProgress, signal } = options;
      return rebalance({ ...parts, move }, rebalanceOf(options), { onProgress, signal });
    },
    planRebalance: async (options = {}) => planRebalance(parts, rebalanceOf(options)),
  };
}
