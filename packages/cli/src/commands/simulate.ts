import { writeFileSync } from 'node:fs';
import { defaultPolicy, PgQueueError } from '@pgqueue/core';
import { throwProblems } from '@pgqueue/core/internal';
import type { Policy } from '@pgqueue/core';
import type {
  Comparison,
  Conditions,
  InstallationsSimulation,
  NodeOptions,
  Simulation,
  SimulationProgress,
  SwfOptions,
  Table,
} from '@pgqueue/lab';
import type { Command } from 'commander';
import { Option } from 'commander';
import { outputOf, withOperator } from '../context.ts';
import { readEnv } from '../env.ts';
import { Exit, UsageError } from '../errors.ts';
import { age } from '../output/format.ts';
import type { Output } from '../output/output.ts';
import { redactor } from '../output/redact.ts';
import type { Moment } from '../parse.ts';
import { duration, moment, whole } from '../parse.ts';
import { loadPolicy } from '../files/policy-file.ts';
import { isSwf } from '../files/swf-file.ts';
import { readPrepared, unprepared } from '../files/prepared-file.ts';
import { whyUnwritten } from '../files/unread.ts';
import type { GlobalOptions } from '../settings.ts';
import type { LoadedWorkload } from '../files/workload-file.ts';
import { examples } from './help.ts';

interface SimulateCommandOptions {
  readonly policy?: string;
  readonly against?: string;
  readonly workload?: string;
  readonly history?: boolean;
  readonly from?: Moment;
  readonly to?: Moment;
  readonly slots?: number;
  readonly nodes?: number;
  readonly tick?: number;
  readonly seed?: number;
  readonly html?: string;
  readonly prepared?: string;
  readonly key?: NonNullable<SwfOptions['key']>;
  readonly installations?: readonly number[];
  readonly sharedSlots?: boolean;
  readonly progress?: boolean;
}

export function addSimulate(program: Command): void {
  const command = program
    .command('simulate')
    .summary('try a policy on a workload, in virtual time')
    .description(
      'Runs a workload through a policy in virtual time, with the code that plans in production, and shows how long jobs wait and who gets what. The default policy is that of a scheduler. Exits with 1 if a policy failed; a table lists its faults. Needs a database only for --history.',
    )
    .option('--policy <file>', 'a module (.js, .mjs, .ts) that exports a policy as "policy"')
    .option('--against <file>', 'another policy, to compare with')
    .option('--workload <file>', 'jobs and flows in JSON, or jobs in the Standard Workload Format (.swf)')
    .addOption(
      new Option('--key <what>', 'field of an .swf file that is the key; default user').choices(swfKeys),
    )
    .option('--history', 'the jobs that ran, with the present limits and nodes')
    .option('--from <time>', 'with --history: jobs finished since this time, or this long ago (7d)', moment)
    .option('--to <time>', 'with --history: jobs finished before this time', moment)
    .option('--slots <n>', 'jobs that a node runs at once; default 10', whole(1, 100_000))
    .option(
      '--nodes <n>',
      'nodes in each pool; default 1, or with --history and without --slots the live ones',
      whole(1, 10_000),
    )
    .option(
      '--installations <n,...>',
      'route the jobs by their keys to this many installations, such as 2,4,8, and compare with one',
      counts,
    )
    .option(
      '--shared-slots',
      'with --installations, a worker serves all with slots that they share; default: each has its part of the slots',
    )
    .option('--tick <duration>', 'shortest time between two plans; default 5ms', duration)
    .option('--seed <n>', 'seed of the random numbers; default 1', whole(0, 2_147_483_647))
    .option(
      '--prepared <file>',
      'JSON of the values that the preparations of the policies would fetch, by their names',
    )
    .option('--html <file>', 'write a report with charts')
    .option('--progress', 'print progress on stderr, even if that is no terminal')
    .action(async (options: SimulateCommandOptions, self: Command) => {
      checkUsage(options);
      if (options.workload === undefined) {
        await withOperator(self, async (operator, output) => {
          const { readHistory } = await import('../files/workload-file.ts');
          const range = rangeOf(options, Date.now());
          const read = await readHistory(operator, range, (jobs) => output.progress(`${jobs} jobs read`));
          await run(options, read, output);
        });
        return;
      }
      const { readWorkload } = await import('../files/workload-file.ts');
      const globals = self.optsWithGlobals<GlobalOptions>();
      const redact = redactor(globals.databaseUrl ?? readEnv().databaseUrl);
      await run(options, readWorkload(options.workload, options.key), outputOf(globals, redact));
    });
  examples(command, [
    ['simulate --workload jobs.json --slots 20', 'how long jobs wait under the default policy'],
    [
      'simulate --policy new.ts --against now.ts --history --from 7d --html report.html',
      'what another policy had done last week',
    ],
    [
      'simulate --history --from 1d --installations 2,4',
      'what routing to 2 or 4 installations does to waits',
    ],
  ]);
}

const swfKeys: readonly NonNullable<SwfOptions['key']>[] = ['user', 'group', 'executable', 'partition'];

/** Reads numbers of installations. @throws {InvalidArgumentError} */
function counts(text: string): readonly number[] {
  return text.split(',').map(whole(1, 64));
}

function checkUsage(options: SimulateCommandOptions): void {
  const { workload, history, from, to, key, installations, against, sharedSlots } = options;
  if ((workload === undefined) === (history !== true))
    throw new UsageError('give --workload FILE, or --history');
  if (history !== true && (from ?? to) !== undefined)
    throw new UsageError('--from and --to go with --history');
  if (key !== undefined && !isSwf(workload ?? ''))
    throw new UsageError('--key goes with a workload in the Standard Workload Format (.swf)');
  if (installations !== undefined && against !== undefined)
    throw new UsageError('--installations compares with one installation: leave out --against');
  if (sharedSlots === true && installations === undefined)
    throw new UsageError('--shared-slots goes with --installations');
}

/** Reads the range of the history. A duration counts back from now. */
function rangeOf(
  { from, to }: SimulateCommandOptions,
  nowMs: number,
): { readonly from?: Date; readonly to?: Date } {
  const dateOf = (given: Moment): Date => (given.kind === 'at' ? given.date : new Date(nowMs - given.ms));
  return {
    ...(from === undefined ? {} : { from: dateOf(from) }),
    ...(to === undefined ? {} : { to: dateOf(to) }),
  };
}

async function run(options: SimulateCommandOptions, loaded: LoadedWorkload, output: Output): Promise<void> {
  const { policy, against } = await policiesOf(options);
  const { htmlReport } = await import('@pgqueue/lab');
  const { arrivals, jobs, queues, says } = loaded;
  const policies = against === undefined ? [policy] : [policy, against];
  const prepared = options.prepared === undefined ? {} : readPrepared(options.prepared, policies);
  const missing = unprepared(policies, prepared);
  if (missing.length > 0) {
    const them = missing.join(', ');
    output.note(
      `nothing is fetched in a simulation, so there is no data for ${them}: give it by --prepared FILE`,
    );
  }
  const conditions: Conditions = {
    workload: arrivals,
    queues,
    fleet: fleetOf(options, loaded),
    prepared,
    ...(options.tick === undefined ? {} : { tickMs: options.tick }),
    ...(options.seed === undefined ? {} : { seed: options.seed }),
    onProgress: teller(jobs, options, output),
  };
  const { result, tables } = await simulated(options, conditions, { policy, against });
  const { skipped } = loaded;
  const workload = { jobs, ...(skipped === undefined ? {} : { skipped }) };
  output.answer({ ...result, workload }, () => textOf(says, tables, output));
  if (options.html !== undefined) {
    writeReport(options.html, await htmlReport(result, { subtitle: says }));
    output.note(`report: ${options.html}`);
  }
  tellFaults(faultsOf(result), output);
}

/** @throws {PgQueueError} `configuration` */
function writeReport(file: string, html: string): void {
  try {
    writeFileSync(file, html);
  } catch (error) {
    throw new PgQueueError('configuration', `--html ${file}: ${whyUnwritten(error)}`, { cause: error });
  }
}

type Result = Simulation | Comparison | InstallationsSimulation;

async function simulated(
  { installations, sharedSlots = false }: SimulateCommandOptions,
  conditions: Conditions,
  { policy, against }: { readonly policy: Policy; readonly against: Policy | undefined },
): Promise<{ readonly result: Result; readonly tables: readonly Table[] }> {
  const lab = await import('@pgqueue/lab');
  if (installations !== undefined) {
    const slots = sharedSlots ? 'shared' : 'divided';
    const result = lab.simulateInstallations({ ...conditions, policy, installations, slots });
    return { result, tables: lab.installationsTables(result) };
  }
  if (against === undefined) {
    const result = lab.simulate({ ...conditions, policy });
    return { result, tables: lab.tablesOf(result) };
  }
  const result = lab.compare({ ...conditions, policy, against });
  return { result, tables: lab.comparisonTables(result) };
}

type Faults = Pick<Simulation, 'policy' | 'faults'>;

function faultsOf(result: Result): readonly Faults[] {
  if ('base' in result) return [result.base, result.other];
  if ('faults' in result) return [result];
  return [{ policy: result.policy, faults: result.results.flatMap(({ faults }) => faults) }];
}

/**
 * Intervals of progress, in milliseconds: on a terminal, where the line is rewritten, and elsewhere, where
 * each is a new line.
 */
const [tellMs, tellLineMs] = [200, 5_000];

function teller(
  jobs: number,
  { progress = false }: SimulateCommandOptions,
  output: Output,
): (progress: SimulationProgress) => void {
  const everyMs = process.stderr.isTTY ? tellMs : tellLineMs;
  let toldAt = -Infinity;
  return ({ ended, waiting, passedMs }) => {
    if (performance.now() < toldAt + everyMs) return;
    toldAt = performance.now();
    const done = `${ended} of ${jobs} jobs (${Math.floor((100 * ended) / Math.max(1, jobs))} %)`;
    output.progress(`${done}, ${waiting} wait, ${age(passedMs)} of virtual time`, { lines: progress });
  };
}

/**
 * Reports policies that failed and exits with code 1: their numbers come from the fallback, and a test of the
 * policy must not pass on them.
 */
function tellFaults(results: readonly Faults[], output: Output): void {
  const failed = results.filter(({ faults }) => faults.length > 0);
  if (failed.length === 0) return;
  for (const { policy, faults } of failed) {
    const parts = [...new Set(faults.map(({ part }) => part))];
    output.note(`policy ${policy} failed (${parts.join(', ')}): the numbers are of what was used instead`);
  }
  throw new Exit(1);
}

async function policiesOf(
  options: SimulateCommandOptions,
): Promise<{ readonly policy: Policy; readonly against: Policy | undefined }> {
  const load = async (
    option: '--policy' | '--against',
    file: string | undefined,
  ): ReturnType<typeof loadPolicy> =>
    file === undefined ? { kind: 'policy', policy: defaultPolicy() } : loadPolicy(file, option);
  const [policy, against] = await Promise.all([
    load('--policy', options.policy),
    load('--against', options.against),
  ]);
  const problems = [policy, against].flatMap((loaded) => (loaded.kind === 'problem' ? [loaded.problem] : []));
  throwProblems('configuration', "pgqueue can't start", problems);
  if (policy.kind === 'problem' || against.kind === 'problem') throw new Error(problems.join('; '));
  return { policy: policy.policy, against: options.against === undefined ? undefined : against.policy };
}

/** Fleet of the command line; else the recorded one; else one node with 10 slots in each pool. */
function fleetOf(
  { slots, nodes }: SimulateCommandOptions,
  { queues, fleet }: LoadedWorkload,
): readonly NodeOptions[] {
  if (slots === undefined && nodes === undefined && fleet !== undefined) return fleet;
  const pools = new Set(['default', ...Object.values(queues).flatMap(({ pool }) => pool ?? [])]);
  return [...pools].map((pool) => ({ pool, slots: slots ?? 10, count: nodes ?? 1 }));
}

function textOf(says: string, tables: readonly Table[], output: Output): string {
  const texts = tables.map(({ title, heads, rows, note }) =>
    [`# ${title}`, output.table(heads, rows), ...(note === undefined ? [] : [note])].join('\n'),
  );
  return [says, ...texts].join('\n\n');
}
