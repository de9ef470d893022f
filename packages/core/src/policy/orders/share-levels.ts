import { unreachable } from '../../errors.ts';
import type { Gate } from '../gate.ts';
import type { GroupBy } from '../gates/lib/group.ts';
import { groupOf, oneJob } from '../gates/lib/group.ts';
import { openTallies } from '../gates/lib/tallies.ts';
import { sayGroup } from '../gates/lib/format.ts';
import type { JobFacts, Snapshot } from '../snapshot.ts';
import { poolOf, queueOf } from '../snapshot.ts';
import type { OpenLevel } from './share.ts';

/** One level of shares: what stands beside each other there, and for how much. */
export interface ShareLevel {
  /** What it is called in reasons: `tenant`. Default: `queue` or `key`, or the level's number. */
  readonly name?: string;
  /** Jobs of one value form a share. A function must depend on what stays as it is while a job is in flight; null is a share, too. */
  readonly by: 'queue' | 'key' | GroupBy;
  /** What its share is beside the others of this level, above 0. Default: of a queue that of queue_config, else 1. */
  readonly weight?: (value: string, snapshot: Snapshot) => number;
  /** Jobs in flight that it is guaranteed: while it has fewer, it goes before all shares that have theirs, whatever it has used. 0: none. */
  readonly min?: (value: string, snapshot: Snapshot) => number;
  /** Jobs in flight that it may have at most, even where slots stay free; null: as many as there are. */
  readonly max?: (value: string, snapshot: Snapshot) => number | null;
}

/** What a job belongs to on a level. */
export function shareName({ by }: ShareLevel, job: JobFacts): string {
  if (by === 'queue') return job.queue;
  if (by === 'key') return job.key;
  return typeof by === 'function' ? (groupOf(by, job) ?? '') : unreachable(by);
}

/** The level's name for people. */
export function levelName({ name, by }: ShareLevel, index: number): string {
  return name ?? (typeof by === 'function' ? `level ${index + 1}` : by);
}

/** A level as a plan asks it. @throws {Error} for a weight or guarantee that is none */
export function openLevel(level: ShareLevel, snapshot: Snapshot): OpenLevel {
  const { by, weight, min } = level;
  const weightOf =
    weight ?? (by === 'queue' ? (value: string): number => queueOf(snapshot, value).weight : () => 1);
  return {
    of:
      by === 'queue' ? (job) => job.queue : by === 'key' ? (job) => job.key : (job) => shareName(level, job),
    weight: (value) => {
      const given = weightOf(value, snapshot);
      if (given > 0 && Number.isFinite(given)) return given;
      throw new Error(`the weight of share ${value} is ${String(given)}, where more than 0 is expected`);
    },
    min:
      min === undefined
        ? undefined
        : (value) => {
            const given = min(value, snapshot);
            if (given >= 0) return given;
            throw new Error(`the min of share ${value} is ${String(given)}, where 0 or more is expected`);
          },
  };
}

/** The gates that keep shares to their `max`, in each pool. */
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
        // the queue says which pool it is
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
            limitOf: (text) => max(lastNames.get(text) ?? '', snapshot),
            label: (_job, text) => `${sayGroup(name, lastNames.get(text))} at its burst maximum`,
            held: laneWide ? 'hold_lane' : 'hold',
          });
        },
      },
    ];
  });
}

/** One text for a path of names, different for each. */
export function pathName(names: readonly string[]): string {
  return names.map((name) => `${name.length}:${name}`).join('');
}
