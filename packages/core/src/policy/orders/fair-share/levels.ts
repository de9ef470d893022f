import { answerOf } from '../../answer.ts';
import { unreachable } from '../../../errors.ts';
import type { Gate } from '../../gate.ts';
import type { GroupBy } from '../../gates/state/group.ts';
import { groupOf, limitGiven, oneJob } from '../../gates/state/group.ts';
import { openTallies } from '../../gates/state/tallies.ts';
import { sayGroup } from '../../gates/state/format.ts';
import type { JobFacts, Snapshot } from '../../snapshot.ts';
import { poolOf, queueOf } from '../../snapshot.ts';
import type { OpenLevel } from './share.ts';

/** One level of shares: the jobs that form a share, and the part of each share. */
export interface ShareLevel {
  /** Name of the level in reasons, such as `tenant`. Default: `queue` or `key`, or the level's number. */
  readonly name?: string;
  /**
   * Groups jobs into shares, one for each value. A function must depend on facts that stay the same while a
   * job is in flight. Jobs with the value null form a share, too.
   */
  readonly by: 'queue' | 'key' | GroupBy;
  /**
   * Weight of a share beside the others of this level, from 0.000001 to 1,000,000. Default: the weight of queue_config for a
   * queue, else 1.
   */
  readonly weight?: (value: string, snapshot: Snapshot) => number;
  /**
   * Jobs in flight that a share is guaranteed. While it has fewer, it goes before all shares that have their
   * guarantee, however much it has used. 0: none.
   */
  readonly min?: (value: string, snapshot: Snapshot) => number;
  /** Most jobs in flight that a share may have in each pool, even if slots stay free. Null: no maximum. */
  readonly max?: (value: string, snapshot: Snapshot) => number | null;
}

/** Least and greatest weight of a share. */
export const shareWeights = { min: 1e-6, max: 1e6 } as const;

/** Returns the share that a job belongs to on a level. */
export function shareName({ by }: ShareLevel, job: JobFacts): string {
  if (by === 'queue') return job.queue;
  if (by === 'key') return job.key;
  return typeof by === 'function' ? (groupOf(by, job) ?? '') : unreachable(by);
}

/** Returns the level's name for people. */
export function levelName({ name, by }: ShareLevel, index: number): string {
  return name ?? (typeof by === 'function' ? `level ${index + 1}` : by);
}

/** Opens a level for one plan. @throws {Error} if a weight or a guarantee is invalid */
export function openLevel(level: ShareLevel, snapshot: Snapshot): OpenLevel {
  const { by, weight, min } = level;
  const ofQueue = (value: string): number => queueOf(snapshot, value).weight;
  const weightOf = weight ?? (by === 'queue' ? ofQueue : undefined);
  return {
    of:
      by === 'queue' ? (job) => job.queue : by === 'key' ? (job) => job.key : (job) => shareName(level, job),
    weight:
      weightOf === undefined
        ? () => 1
        : (value) => {
            const given = answerOf('weight', weightOf(value, snapshot));
            if (typeof given === 'number' && given >= shareWeights.min && given <= shareWeights.max)
              return given;
            throw new Error(
              `the weight of share ${value} is ${String(given)}, where a number from 0.000001 to 1,000,000 is expected`,
            );
          },
    min:
      min === undefined
        ? undefined
        : (value) => {
            const given = answerOf('min', min(value, snapshot));
            if (typeof given === 'number' && given >= 0) return given;
            throw new Error(`the min of share ${value} is ${String(given)}, where 0 or more is expected`);
          },
  };
}

/** Returns the gates that keep shares to their `max`, in each pool. */
export function burstGates(order: string, levels: readonly ShareLevel[]): readonly Gate[] {
  return levels.flatMap(({ max }, index): Gate[] => {
    if (max === undefined) return [];
    const path = levels.slice(0, index + 1);
    const name = levelName(path[index] ?? { by: 'key' }, index);
    const laneWide = path.every(({ by }) => typeof by !== 'function');
    return [
      {
        name: `${order}_max_${name.replaceAll(' ', '_')}`,
        onError: 'hold',
        // the queue stands for its pool
        groups: {
          of: (job) => pathName([job.queue, ...path.map((level) => shareName(level, job))]),
          lane: laneWide,
        },
        open: (snapshot) => {
          const lastNames = new Map<string, string>();
          return openTallies(snapshot, {
            groupOf: (job) => {
              const names = path.map((level) => shareName(level, job));
              const text = pathName([poolOf(snapshot, job.queue), ...names]);
              lastNames.set(text, names.at(-1) ?? '');
              return text;
            },
            costsOf: () => oneJob,
            limitOf: (text) => {
              const value = lastNames.get(text) ?? '';
              return limitGiven('max', value, max(value, snapshot));
            },
            label: (_job, text) => sayGroup(name, lastNames.get(text)),
            held: laneWide ? 'hold_lane' : 'hold',
          });
        },
      },
    ];
  });
}

/** Returns one text for a path of names, different for each path. */
export function pathName(names: readonly string[]): string {
  return names.map((name) => `${name.length}:${name}`).join('');
}
