import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { addDashboard } from './commands/dashboard.ts';
import { addDead } from './commands/dead.ts';
import { addDev } from './commands/dev.ts';
import { addDoctor } from './commands/doctor.ts';
import { addEnqueue } from './commands/enqueue.ts';
import { addExplain } from './commands/explain.ts';
import { addFlows } from './commands/flows.ts';
import { examples } from './commands/help.ts';
import { addInstallations } from './commands/installations/installations.ts';
import { addJobs } from './commands/jobs.ts';
import { addKeys } from './commands/installations/keys.ts';
import { addMigrate } from './commands/migrate.ts';
import { addNodes } from './commands/nodes.ts';
import { addQueues } from './commands/queues/queues.ts';
import { addScheduler } from './commands/scheduler.ts';
import { addSchedules } from './commands/schedules.ts';
import { addSimulate } from './commands/simulate.ts';
import { addStatus } from './commands/status.ts';
import { addTop } from './commands/top.ts';
import { addTasks } from './commands/tasks.ts';
import { addStart } from './commands/start.ts';
import { addWorker } from './commands/worker.ts';
import { readEnv } from './env.ts';
import type { ExitCode } from './errors.ts';
import { failureOf } from './errors.ts';
import { plainJson, printable } from './output/format.ts';
import { redactor } from './output/redact.ts';
import type { Redact } from './output/redact.ts';

/**
 * Runs a command line, without `node` and the script name. Writes to stdout and stderr; returns the exit
 * code.
 */
export async function runCli(args: readonly string[]): Promise<ExitCode> {
  const redact = redactorFor(args);
  const refused: string[] = [];
  const json = wantsJson(args);
  const program = buildProgram(redact, json ? (text) => void refused.push(text) : toStderr);
  try {
    await program.parseAsync([...args], { from: 'user' });
    return 0;
  } catch (error) {
    const { exit, code, message = usageMessage(refused) } = failureOf(error);
    if (message !== undefined) process.stderr.write(failureText({ code, message, json, redact }));
    return exit;
  }
}

/** Text of a failure on stderr: one line, or with `--json` one JSON object. */
export function failureText(failure: {
  readonly code: string;
  readonly message: string;
  readonly json: boolean;
  readonly redact: Redact;
}): string {
  const { code, message, json, redact } = failure;
  const clean = redact(message);
  return json
    ? `${plainJson(JSON.stringify({ error: { code, message: clean } }))}\n`
    : `${printable(`pgqueue: ${clean}`)}\n`;
}

/** Tells whether `--json` is given; read before the command line is parsed, since parsing may fail before it comes to that. */
export function wantsJson(args: readonly string[]): boolean {
  const end = args.indexOf('--');
  return (end < 0 ? args : args.slice(0, end)).includes('--json');
}

/** Makes one message of what commander writes when it refuses a command line: an error, or the help of a command that has parts. */
function usageMessage([first]: readonly string[]): string | undefined {
  if (first === undefined) return undefined;
  const [line = ''] = first.split('\n', 1);
  return line.startsWith('Usage: ') ? `a command is missing (${line})` : first.replace(/^error: /, '').trim();
}

function toStderr(text: string): void {
  process.stderr.write(printable(text));
}

/** Returns a redactor for the connection string on this command line or in the environment. */
export function redactorFor(args: readonly string[]): Redact {
  return redactor(urlIn(args) ?? readEnv().databaseUrl);
}

export function buildProgram(redact: Redact, refuse: (text: string) => void = toStderr): Command {
  const program = new Command('pgqueue')
    .description(
      'A Postgres job queue in two tiers: fair, exact about limits, and able to say why a job is not running.',
    )
    .version(version(), '-V, --version', 'show the version')
    .option('--json', 'answer with one JSON document, or JSON lines for streams')
    .option('--database-url <url>', 'connection string; else PGQUEUE_DATABASE_URL, then DATABASE_URL')
    .option('--schema <name>', 'the schema of the installation; default pgqueue')
    .option('--codec <file>', 'a module that exports `codec`, to encrypt and decrypt; else PGQUEUE_CODEC')
    .showHelpAfterError('(--help shows what there is)')
    .showSuggestionAfterError()
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => void process.stdout.write(text),
      writeErr: (text) => refuse(redact(withoutValues(text))),
    })
    .exitOverride();
  for (const add of [
    addDev,
    addStart,
    addMigrate,
    addDoctor,
    addStatus,
    addTop,
    addScheduler,
    addWorker,
    addDashboard,
  ])
    add(program);
  for (const add of [
    addEnqueue,
    addJobs,
    addDead,
    addFlows,
    addExplain,
    addQueues,
    addNodes,
    addSchedules,
    addInstallations,
    addKeys,
  ])
    add(program);
  for (const add of [addTasks, addSimulate]) add(program);
  examples(program, [
    ['dev', 'a database, a scheduler and a worker for your laptop, in one process'],
    ['migrate && pgqueue status', 'a first installation'],
  ]);
  return program;
}

/** Removes JSON values from usage errors: a mistyped payload is still a payload. */
function withoutValues(text: string): string {
  return text
    .replace(/(option '[^']*<json>') argument '[^]*' is invalid/, '$1 is invalid')
    .replace(/(unknown option '--[\w-]+)=[^]*'/, "$1'");
}

/**
 * Finds the connection string before the command line is parsed, so that usage errors can be redacted, too.
 */
function urlIn(args: readonly string[]): string | undefined {
  const at = args.findIndex((arg) => arg === '--database-url' || arg.startsWith('--database-url='));
  return at < 0 ? undefined : args[at]?.split('=').slice(1).join('=') || args[at + 1];
}

function version(): string {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { readonly version: string }).version;
}
