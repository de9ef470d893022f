import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { JobOptions } from '@pgqueue/core';
import { guardGroup } from '../../packages/worker/src/executable/group-guard.ts';
import { until as untilWithin } from '../support/until.ts';
import type { Ground } from './ground.ts';
import { schema } from './ground.ts';

/** An effect of a handler, from the file that they append to. */
export interface Effect {
  readonly job: string;
  readonly what: string;
  readonly data?: unknown;
}

/** Exit code of a process, or the signal that ended it. */
export type ExitCode = number | NodeJS.Signals | null;

/** A process of the worker under test. */
export interface WorkerProcess {
  readonly node: string;
  readonly signal: (signal: NodeJS.Signals) => void;
  readonly exited: Promise<ExitCode>;
  /** Returns what it wrote on stdout and stderr. */
  readonly output: () => string;
}

export interface StartOptions {
  readonly url?: string;
  readonly schema?: string;
  readonly lostAfterMs?: number;
  readonly listen?: boolean;
}

export type Row = Readonly<Record<string, unknown>>;

/** Surroundings of a case: a queue and a pool of its own, and the worker under test. */
export interface Stage {
  readonly ground: Ground;
  readonly command: string;
  readonly waitMs: number;
  readonly queue: string;
  /** Starts a process of the worker; resolves when its node is registered. */
  readonly start: (options?: StartOptions) => Promise<WorkerProcess>;
  /** Starts a process of the worker, which may end before it registers. */
  readonly launch: (options?: StartOptions) => WorkerProcess;
  /** Waits until a process has ended; returns its exit code. */
  readonly exit: (worker: WorkerProcess) => Promise<ExitCode>;
  readonly enqueue: (task: string, payload: unknown, options?: JobOptions) => Promise<string>;
  readonly effects: (job: string) => readonly string[];
  readonly allEffects: () => readonly Effect[];
  /** Waits until a job has had this many effects of a kind. */
  readonly effect: (job: string, what: string, count?: number) => Promise<void>;
  /** Names a file that does not exist yet; `open` makes it. */
  readonly gate: () => { readonly gate: string; readonly open: () => void };
  readonly sql: (text: string, values?: readonly unknown[]) => Promise<readonly Row[]>;
  readonly until: <Found>(
    what: string,
    probe: () => Promise<Found | undefined | false> | Found | undefined | false,
  ) => Promise<Found>;
  /** Waits until a job is in the history; returns its row. */
  readonly ended: (job: string) => Promise<Row>;
  /** Waits until a job is in the dead letters; returns its row. */
  readonly died: (job: string) => Promise<Row>;
}

const root = fileURLToPath(new URL('../..', import.meta.url));
export interface OnStage {
  readonly ground: Ground;
  readonly command: string;
  /** Name of the case. */
  readonly name: string;
  /** Longest wait for anything, on a busy machine. Default 1 min. */
  readonly waitMs?: number;
}

/** Runs `act` on a stage of its own. Its processes end with it. A failure has the output of the worker. */
export async function onStage(
  { ground, command, name, waitMs = 60_000 }: OnStage,
  act: (stage: Stage) => Promise<void>,
): Promise<void> {
  const running: (WorkerProcess & { readonly kill: () => void })[] = [];
  const { sql } = statements(ground);
  await sql(`insert into ${schema}.queue_config (queue, pool) values ($1, $1)`, [name]);
  const effectsFile = join(ground.folder, `${name}-effects`);
  writeFileSync(effectsFile, '');
  let gates = 0;

  const launch: Stage['launch'] = (options = {}) => {
    const node = `${name}-${running.length + 1}`;
    const env = environment({ ground, name, node, effectsFile, options });
    const started = startProcess(command, env, join(ground.folder, `${node}.log`), node);
    running.push(started);
    return started;
  };
  const stage: Stage = {
    ground,
    command,
    waitMs,
    queue: name,
    sql,
    launch,
    until: (what, probe) => untilWithin(what, probe, waitMs),
    start: async (options) => {
      const worker = launch(options);
      let ended: ExitCode | undefined;
      void worker.exited.then((code) => (ended = code));
      await stage.until(`node ${worker.node} to be registered`, async () => {
        // also of a worker that poison has killed since
        const rows = await sql(`select 1 from ${schema}.node where id = $1`, [worker.node]);
        if (rows.length === 0 && ended !== undefined)
          throw new Error(`the worker ended with ${ended} before it registered`);
        return rows.length > 0;
      });
      return worker;
    },
    exit: async (worker) => {
      let code: ExitCode | undefined;
      void worker.exited.then((given) => (code = given));
      await stage.until(`the process of ${worker.node} to end`, () => code !== undefined);
      return code ?? null;
    },
    enqueue: async (task, payload, options = {}) =>
      (await ground.producer.enqueueByName(task, payload, { queue: name, ...options })).id,
    allEffects: () => readEffects(effectsFile),
    effects: (job) =>
      readEffects(effectsFile)
        .filter((effect) => effect.job === job)
        .map(({ what }) => what),
    effect: async (job, what, count = 1) => {
      await stage.until(`effect ${what} of job ${job}, ${count} times`, () => {
        return stage.effects(job).filter((found) => found === what).length >= count;
      });
    },
    gate: () => {
      gates += 1;
      const gate = join(ground.folder, `${name}-gate-${gates}`);
      return { gate, open: () => writeFileSync(gate, '') };
    },
    ended: (job) => stage.until(`job ${job} to end`, () => row(sql, 'history', job)),
    died: (job) => stage.until(`job ${job} to be dead`, () => row(sql, 'dead_letter', job)),
  };
  try {
    await act(stage);
  } catch (error) {
    const said = running.map((worker) => `--- output of ${worker.node}\n${worker.output().slice(-4_000)}`);
    throw new Error([error instanceof Error ? error.message : String(error), ...said].join('\n'), {
      cause: error,
    });
  } finally {
    for (const worker of running) worker.kill();
    await Promise.all(running.map(({ exited }) => exited));
  }
}

function statements(ground: Ground): Pick<Stage, 'sql'> {
  return { sql: (text, values = []) => ground.database.query<Row>(text, values) };
}

async function row(sql: Stage['sql'], table: string, job: string): Promise<Row | undefined> {
  const [found] = await sql(`select * from ${schema}.${table} where id = $1`, [job]);
  return found;
}

function readEffects(file: string): readonly Effect[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.endsWith('}')) // the last one may be half written
    .map((line) => JSON.parse(line) as Effect);
}

function environment({
  ground,
  name,
  node,
  effectsFile,
  options: { url = ground.workerUrl, schema: named = schema, lostAfterMs = 30_000, listen = true },
}: {
  readonly ground: Ground;
  readonly name: string;
  readonly node: string;
  readonly effectsFile: string;
  readonly options: StartOptions;
}): NodeJS.ProcessEnv {
  return {
    ...process.env,
    PGQUEUE_DATABASE_URL: url,
    PGQUEUE_SCHEMA: named,
    PGQUEUE_NODE: node,
    PGQUEUE_POOL: name,
    PGQUEUE_SLOTS: '4',
    PGQUEUE_HEARTBEAT_MS: '500',
    PGQUEUE_LOST_AFTER_MS: String(lostAfterMs),
    PGQUEUE_DRAIN_MS: '30000',
    PGQUEUE_LISTEN: String(listen),
    CONFORMANCE_EFFECTS: effectsFile,
  };
}

/** Starts the command in a process group of its own: signals reach a shell's children, too. */
function startProcess(
  command: string,
  env: NodeJS.ProcessEnv,
  log: string,
  node: string,
): WorkerProcess & { readonly kill: () => void } {
  const out = openSync(log, 'a');
  const child: ChildProcess = spawn('sh', ['-c', `exec ${command}`], {
    cwd: root,
    env,
    detached: true,
    stdio: ['ignore', out, out],
  });
  closeSync(out);
  if (child.pid === undefined) throw new Error('sh could not be started');
  const group = guardGroup(child.pid); // it ends with this process, however that ends
  const exited = once(child, 'exit').then(([code, signal]) => (code ?? signal) as ExitCode);
  return {
    node,
    exited,
    signal: (signal) => (signal === 'SIGTERM' ? void child.kill(signal) : group.kill(signal)),
    output: () => (existsSync(log) ? readFileSync(log, 'utf8') : ''),
    kill: () => group.end(),
  };
}
