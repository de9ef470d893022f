import type { Machine } from '../actors/machine.ts';
import type { StepName } from '../steps.ts';
import type { Measured } from '../works/work.ts';

/** One repetition of one case by one peer. */
export interface Run extends StepName, Measured {
  readonly sizes: Sizes;
  /** Duration of the run, including preparation and cleanup. */
  readonly tookSeconds: number;
}

export interface Sizes {
  readonly jobs: number;
  readonly seconds: number;
}

export interface Contestant {
  readonly peer: string;
  readonly setting: string;
  readonly version: string;
  readonly says: string;
}

/** Results of one or several runs of the command. */
export interface Report {
  /** Commands that produced the report, in order. */
  readonly commands: readonly string[];
  readonly startedAt: string;
  /** Commit of pgqueue's repository; undefined outside a repository. */
  readonly commit: string | undefined;
  readonly machine: Machine;
  readonly postgres: { readonly version: string; readonly settings: Readonly<Record<string, string>> };
  readonly redis: { readonly version: string; readonly settings: string } | undefined;
  readonly contestants: readonly Contestant[];
  readonly runs: readonly Run[];
}

/**
 * Merges reports in order. Runs of a case by a peer replace all runs of it in earlier reports.
 *
 * @throws if the machines, servers or versions differ, since their figures cannot be compared
 */
export function mergeReports(reports: readonly Report[]): Report {
  const [first, ...rest] = reports;
  if (first === undefined) throw new Error('there is no report to merge');
  return rest.reduce(merged, first);
}

function merged(one: Report, other: Report): Report {
  const differences = [
    ...differ('machine', one.machine, other.machine),
    ...differ('PostgreSQL', one.postgres, other.postgres),
    ...(one.redis === undefined || other.redis === undefined ? [] : differ('Redis', one.redis, other.redis)),
    ...other.contestants.flatMap((it) => {
      const same = one.contestants.find((two) => contestantOf(two) === contestantOf(it));
      return same === undefined ? [] : differ(contestantOf(it), same, it);
    }),
  ];
  if (differences.length > 0) {
    throw new Error(
      `the reports are not of one machine and of the same versions: ${differences.join('; ')}. Measure again, into a new file`,
    );
  }
  const again = new Set(other.runs.map(runOf));
  return {
    ...one,
    commands: [...new Set([...one.commands, ...other.commands])],
    commit:
      [...new Set([one.commit, other.commit])].filter((commit) => commit !== undefined).join(', ') ||
      undefined,
    redis: one.redis ?? other.redis,
    contestants: [
      ...one.contestants,
      ...other.contestants.filter(
        (it) => !one.contestants.some((two) => contestantOf(two) === contestantOf(it)),
      ),
    ],
    runs: [...one.runs.filter((run) => !again.has(runOf(run))), ...other.runs],
  };
}

function differ(what: string, one: unknown, other: unknown): readonly string[] {
  const [a, b] = [JSON.stringify(one), JSON.stringify(other)];
  return a === b ? [] : [`${what}: ${a} and ${b}`];
}

function contestantOf({ peer, setting }: Pick<Contestant, 'peer' | 'setting'>): string {
  return `${peer}, ${setting}`;
}

/** Key of a case by a peer, across repetitions. */
function runOf({ work, case: name, peer, setting }: StepName): string {
  return [work, name, peer, setting].join('\n');
}

/**
 * Reports whether a step has been run. A run with faults counts too: its faults must stay in the report.
 *
 * @throws if the report contains the case with other sizes
 */
export function isMeasured(report: Report, name: StepName, sizes: Sizes): boolean {
  const same = report.runs.filter((run) => runOf(run) === runOf(name));
  const other = same.find((run) => run.sizes.jobs !== sizes.jobs || run.sizes.seconds !== sizes.seconds);
  if (other !== undefined) {
    throw new Error(
      `${name.work}, ${name.case} by ${name.peer} was measured with ${sizesText(other.sizes)}, not ${sizesText(sizes)}: ask for that, or give another --json`,
    );
  }
  return same.some(({ repetition }) => repetition === name.repetition);
}

function sizesText({ jobs, seconds }: Sizes): string {
  return `--jobs ${jobs} --seconds ${seconds}`;
}
