import type { LimitPart, LimitStatus } from './limits-of.ts';

/** Something about a shared limit that does not fit. */
export interface LimitMisfit {
  readonly installation: string;
  readonly message: string;
}

/** An installation that is silent for longer is told, in milliseconds: a change of the leader takes seconds. */
const silentMaxMs = 60_000;

/** Finds limits with two homes, sizes that differ, and parts that stay reserved for silent installations. */
export function limitMisfits(limits: readonly LimitStatus[]): readonly LimitMisfit[] {
  return [...Map.groupBy(limits, ({ name }) => name)].flatMap(([name, kept]) => [
    ...(kept.length < 2 ? [] : kept.map((limit) => twoHomes(name, limit, kept))),
    ...kept.flatMap((limit) => [...sizesOf(limit), ...silentOf(limit)]),
  ]);
}

function twoHomes(name: string, { home }: LimitStatus, kept: readonly LimitStatus[]): LimitMisfit {
  const homes = kept.map((limit) => limit.home).join(' and ');
  return {
    installation: home,
    message: `shared limit ${name} has its home in ${homes}: name the same home in every policy, and remove the limit in the other`,
  };
}

function sizesOf({ name, home, parts }: LimitStatus): readonly LimitMisfit[] {
  const told = Map.groupBy(
    parts.filter(({ silentMs }) => silentMs === 0),
    sayTold,
  );
  if (told.size < 2) return [];
  const all = [...told].map(
    ([size, of]) => `${of.map(({ installation }) => installation).join(', ')} ${size}`,
  );
  return [
    {
      installation: home,
      message: `shared limit ${name} has several sizes, and the smallest counts: ${all.join('; ')}. Give every policy the same`,
    },
  ];
}

function sayTold({ told: { size, perSecond } }: LimitPart): string {
  return perSecond === null ? `tells ${size}` : `tells ${perSecond} a second with a burst of ${size}`;
}

function silentOf({ name, home, size, parts }: LimitStatus): readonly LimitMisfit[] {
  return parts
    .filter(({ silentMs, reserved }) => silentMs > silentMaxMs && reserved > 0)
    .map(({ installation, reserved, silentMs }) => ({
      installation: home,
      message: `${installation} has not renewed its part of shared limit ${name} for ${Math.round(silentMs / 1_000)} s, and keeps ${reserved} of ${size}: start a scheduler there, or, if it is gone, run "pgqueue installations forfeit ${name} ${installation}"`,
    }));
}
