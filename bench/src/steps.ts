import type { BenchOptions } from './options.ts';
import type { Peer, Setting } from './peers/peer.ts';
import { loadPeer } from './peers/index.ts';
import type { Part } from './actors/plans.ts';
import { longWorks, works } from './works/index.ts';
import type { Case } from './works/work.ts';

/** A peer in one of its settings. */
export interface Entrant {
  readonly peer: Peer;
  readonly setting: Setting;
}

/** One run: a case of a work, by one peer, in one repetition. */
export interface Step extends Entrant {
  readonly work: string;
  readonly one: Case;
  readonly repetition: number;
  /** Sizes for this run: the command line's, limited by those of its part. */
  readonly options: BenchOptions;
}

/** Identifies a run within a report. */
export interface StepName {
  readonly work: string;
  readonly case: string;
  readonly peer: string;
  readonly setting: string;
  readonly repetition: number;
}

export function nameOf({ work, one, peer, setting, repetition }: Step): StepName {
  return { work, case: one.name, peer: peer.name, setting: setting.name, repetition };
}

/**
 * Lists all steps by repetition: everything once, then everything again. A slow minute of the machine then
 * affects all peers, and after an early stop every work has been measured about equally often.
 */
export async function stepsOf(
  options: BenchOptions,
  parts: readonly Part[],
  load: typeof loadPeer = loadPeer,
): Promise<readonly Step[]> {
  const steps: Step[] = [];
  for (const part of parts) {
    const sizes = {
      ...options,
      seconds: Math.min(options.seconds, part.seconds ?? Infinity),
      repeat: Math.min(options.repeat, part.repeat ?? Infinity),
    };
    steps.push(...partSteps(sizes, part, await entrantsOf(part.peers, load)));
  }
  return steps.toSorted((a, b) => a.repetition - b.repetition);
}

function partSteps(options: BenchOptions, part: Part, entrants: readonly Entrant[]): readonly Step[] {
  const wanted = ({ name }: Case): boolean => part.cases?.some((begin) => name.startsWith(begin)) ?? true;
  return [...works, ...longWorks]
    .filter(({ name }) => part.works.includes(name))
    .flatMap((work) =>
      work
        .cases(options)
        .filter(wanted)
        .flatMap((one) => {
          const times = Math.min(options.repeat, one.repeatMax ?? Infinity);
          const taking = entrants
            .filter(({ setting }) => setting.works?.includes(work.name) ?? true)
            .filter(({ peer, setting }) => one.takes?.(peer, setting) ?? true);
          return Array.from({ length: times }, (_, at) => at + 1).flatMap((repetition) =>
            taking.map((entrant) => ({ ...entrant, work: work.name, one, repetition, options })),
          );
        }),
    );
}

/** @throws if a peer has no such setting */
export async function entrantsOf(
  names: readonly string[],
  load: typeof loadPeer = loadPeer,
): Promise<readonly Entrant[]> {
  const entrants: Entrant[] = [];
  for (const name of names) {
    const [first = '', wanted] = name.split(':');
    const peer = await load(first);
    const settings = peer.settings.filter((setting) => wanted === undefined || setting.name === wanted);
    if (settings.length === 0) {
      const there = peer.settings.map((setting) => setting.name).join(', ');
      throw new Error(`${first} has no setting ${wanted}; it has ${there}`);
    }
    entrants.push(...settings.map((setting) => ({ peer, setting })));
  }
  return entrants;
}
