import { shareWeights } from '@pgqueue/core/internal';
import type { QueueSettings, RateSetting } from '@pgqueue/postgres';
import { settingsToStore } from '@pgqueue/postgres/internal';
import { Argument } from 'commander';
import type { Command } from 'commander';
import { acrossInstallations, withOperations } from '../../installations.ts';
import { UsageError } from '../../errors.ts';
import { oneLine } from '../../output/format.ts';
import { durationOf, queueName } from '../../parse.ts';
import { examples } from '../help.ts';

/** Options as text, so that all problems can be reported at once; false: `--no-…`. */
interface QueueSetOptions {
  readonly pool?: string;
  readonly retention?: string;
  readonly concurrency?: string | false;
  readonly keyConcurrency?: string | false;
  readonly rate?: string | false;
  readonly burst?: string;
  readonly keyRate?: string | false;
  readonly keyBurst?: string;
  readonly keyPending?: string | false;
  readonly weight?: string | false;
}

export function addQueueSet(queues: Command): void {
  const command = acrossInstallations(queues.command('set'))
    .description(
      'Changes the settings of a queue; settings that are not given stay. Limits apply from the next tick on.',
    )
    .addArgument(new Argument('<queue>', 'name of the queue').argParser(queueName))
    .option('--pool <pool>', 'pool of nodes that serves it')
    .option('--retention <duration>', 'how long its history is kept; 0: not at all')
    .option('--concurrency <n>', 'most of its jobs in flight (ready or running)')
    .option('--no-concurrency', 'removes that limit')
    .option('--key-concurrency <n>', 'the same for each of its keys')
    .option('--no-key-concurrency', 'removes that limit')
    .option('--rate <rate>', 'most of its jobs dispatched per time: 100/s, 5/m, 20/h, 50/d')
    .option('--burst <n>', 'with --rate: most at once (default: those of a second, at least 1)')
    .option('--no-rate', 'removes that limit')
    .option('--key-rate <rate>', 'the same for each of its keys')
    .option('--key-burst <n>', 'with --key-rate: most at once')
    .option('--no-key-rate', 'removes that limit')
    .option('--key-pending <n>', 'most jobs of one key that wait or run; an enqueue of more is refused')
    .option('--no-key-pending', 'removes that limit')
    .option('--weight <weight>', 'its share beside other queues, if the policy has shares')
    .option('--no-weight', 'resets the weight to 1')
    .action((queue: string, options: QueueSetOptions, self: Command) => {
      const settings = settingsOf(options, contradictions());
      return withOperations(self, async (operator, output) => {
        const { isNew } = await operator.queues.set(queue, settings);
        output.answer({ queue, ...settingsToStore(settings), isNew }, () =>
          oneLine(`queue ${queue} is set${newText(isNew)}`),
        );
      });
    });
  const contradictions = contradictionsOf(command);
  examples(command, [
    ['queues set reports --pool slow', 'served by nodes started with --pool slow'],
    ['queues set mail --retention 30d', 'keeps its history for a month'],
    ['queues set mail --key-concurrency 1 --rate 100/s --burst 10', 'limits, from the next tick on'],
    ['queues set mail --no-rate', 'removes a limit'],
  ]);
}

/** Watches for an option that is given together with its `--no-…`: both have one value, of which the last would count. */
function contradictionsOf(command: Command): () => readonly string[] {
  const given = new Set<string>();
  for (const option of command.options)
    command.on(`option:${option.name()}`, () => void given.add(option.name()));
  return () =>
    [...given]
      .filter((name) => given.has(`no-${name}`))
      .map((name) => `--${name} and --no-${name} contradict each other`);
}

/**
 * A hint for a queue without settings and jobs. Any name can be configured before its first job, including a
 * mistyped one.
 */
export function newText(isNew: boolean): string {
  return isNew ? ' (it is new: it had no settings, and no job waits in it; is that its name?)' : '';
}

/**
 * Reads the settings to change.
 * @throws {UsageError} with all problems at once
 */
function settingsOf(options: QueueSetOptions, contradictions: readonly string[]): QueueSettings {
  const { pool, retention, concurrency, keyConcurrency, rate, keyRate, keyPending, weight } = options;
  const problems = [...contradictions];
  const read = reader(problems);
  const retentionMs = retention === undefined ? undefined : durationOf(retention);
  if (retention !== undefined && retentionMs === undefined) {
    problems.push('--retention must be a duration, such as 500ms, 30s, 5m, 2h or 7d');
  }
  const given: QueueSettings = {
    ...(pool === undefined ? {} : { pool }),
    ...(retentionMs === undefined ? {} : { retention: retentionMs }),
    ...(concurrency === undefined ? {} : { concurrency: read.count('--concurrency', concurrency) }),
    ...(keyConcurrency === undefined
      ? {}
      : { keyConcurrency: read.count('--key-concurrency', keyConcurrency) }),
    ...(rate === undefined ? {} : { rate: read.rate('--rate', rate, options.burst) }),
    ...(keyRate === undefined ? {} : { keyRate: read.rate('--key-rate', keyRate, options.keyBurst) }),
    ...(keyPending === undefined ? {} : { keyPending: read.count('--key-pending', keyPending, 1) }),
    ...(weight === undefined ? {} : { weight: read.number('--weight', weight, shareWeights) }),
  };
  if (options.burst !== undefined && typeof rate !== 'string') problems.push('--burst needs --rate');
  if (options.keyBurst !== undefined && typeof keyRate !== 'string')
    problems.push('--key-burst needs --key-rate');
  if (problems.length === 0 && Object.keys(given).length === 0)
    problems.push(
      'give at least one of --pool, --retention, --concurrency, --key-concurrency, --rate, --key-rate, --key-pending, --weight',
    );
  if (problems.length > 0) throw new UsageError(problems.join('; '));
  return given;
}

interface Reader {
  readonly count: (name: string, text: string | false, min?: number) => number | null;
  readonly number: (
    name: string,
    text: string | false,
    range: { readonly min: number; readonly max: number },
  ) => number | null;
  readonly rate: (name: string, text: string | false, burst: string | undefined) => RateSetting | null;
}

/** Returns parsers that give null for a value they cannot read, and add a problem. */
function reader(problems: string[]): Reader {
  const wrong = (problem: string): null => {
    problems.push(problem);
    return null;
  };
  const count: Reader['count'] = (name, text, min = 0) => {
    if (text === false) return null;
    const isCount = /^\d{1,9}$/.test(text) && Number(text) >= min;
    return isCount ? Number(text) : wrong(`${name} must be a whole number from ${min}`);
  };
  const number: Reader['number'] = (name, text, { min, max }) => {
    if (text === false) return null;
    const value = Number(text);
    const isNumber = text.trim() !== '' && value >= min && value <= max;
    return isNumber ? value : wrong(`${name} must be a number from ${min} to ${max}`);
  };
  const rate: Reader['rate'] = (name, text, burstText) => {
    const burst = burstText === undefined ? null : burstOf(name.replace('rate', 'burst'), burstText);
    if (text === false) return null;
    const [, jobs, unit = ''] = /^(\d+(?:\.\d+)?)\/([smhd])$/.exec(text) ?? [];
    const perSecond = Number(jobs) / (unitSeconds[unit] ?? Number.NaN);
    if (!(perSecond > 0)) return wrong(`${name} must be jobs in a time, such as 100/s, 5/m, 20/h or 50/d`);
    return { perSecond, ...(burst === null ? {} : { burst }) };
  };
  const burstOf = (name: string, text: string): number | null => {
    const value = Number(text);
    const isBurst = text.trim() !== '' && Number.isFinite(value) && value >= 1;
    return isBurst ? value : wrong(`${name} must be a number from 1`);
  };
  return { count, number, rate };
}

const unitSeconds: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 };
