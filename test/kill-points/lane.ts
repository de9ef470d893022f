import type { ChildProcess } from 'node:child_process';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Database } from '@pgqueue/postgres';
import { createOperator } from '@pgqueue/postgres';
import { openDatabase } from '@pgqueue/postgres/internal';
import { createScheduler } from '@pgqueue/scheduler';
import { createWorker } from '@pgqueue/worker';
import { until } from '../support/until.ts';
import type { RunParts, Scenario } from './scenarios.ts';
import { untilLeft } from './scenarios.ts';
import type { Point } from './statement-proxy.ts';
import { startStatementProxy } from './statement-proxy.ts';
import { handlers } from './tasks.ts';
import { problemsOf } from './verdict.ts';
import { emptying, jobTables } from '../support/empty.ts';

/** The result of one point. */
export interface Ran {
  /** True if there was an n-th statement. */
  readonly reached: boolean;
  readonly statement: string;
  readonly problems: readonly string[];
}

export interface Try {
  readonly scenario: Scenario;
  readonly point: Point;
  /**
   * True: in a process of its own, which is killed. False: in this process, whose connections end for good.
   */
  readonly alone: boolean;
}

/** One database, on which points are run one after another. */
export interface Lane {
  readonly run: (one: Try) => Promise<Ran>;
  /** Waits until processes left over have ended by themselves. */
  readonly close: () => Promise<void>;
}

const survivorsOf = {
  scheduler: (connectionString: string) =>
    createScheduler({
      connectionString,
      name: 'standby',
      listen: false,
      leaseMs: 2_000,
      pollMs: { min: 5, max: 20 },
    }),
  worker: (connectionString: string) =>
    createWorker({
      connectionString,
      node: 'survivor',
      tasks: handlers(false),
      listen: false,
      heartbeatMs: 500,
      lostAfterMs: 20_000,
      heartbeatThread: false,
      blockedMs: 0,
    }),
};
type Kind = keyof typeof survivorsOf;

const kinds: readonly Kind[] = ['scheduler', 'worker'];

const empty = `
  ${emptying([...jobTables, 'schedule', 'policy_state'])};
  delete from effect; delete from application;
  update pgqueue.scheduler_lease set leader = null, expires = '-infinity';`;

export async function openLane(url: string): Promise<Lane> {
  const database = openDatabase({ connectionString: url, connectionsMax: 2 });
  const operator = createOperator({ connectionString: url });
  await database.query('create table if not exists effect (job uuid)', []);
  await database.query('create table if not exists application (job uuid)', []);
  const loose: Promise<unknown>[] = [];

  const run: Lane['run'] = async ({ scenario, point, alone }) => {
    await database.query(empty + scenario.prepare, []);
    const prepared = await database.query<{ id: string }>('select id from pgqueue.queue', []);
    const known = prepared.map(({ id }) => id);
    const proxy = await startStatementProxy(url, point);
    const running = new Map<Kind, { readonly stop: () => Promise<void> }>();
    const begin = async (kind: Kind): Promise<void> => {
      if (running.has(kind)) return;
      const survivor = survivorsOf[kind](url);
      running.set(kind, survivor);
      await survivor.start();
    };
    let doomed: Doomed | undefined;
    try {
      for (const kind of scenario.beside) await begin(kind);
      const start = alone ? aloneOf : withinOf;
      const one = start({ scenario, url: proxy.url, database, acknowledged: (id) => known.push(id) });
      doomed = one;
      const died = proxy.reached.then((): Promise<Ending> | Ending =>
        point.fate === 'death' ? 'died' : one.ended,
      );
      const ended = await Promise.race([one.ended, died]);
      if (ended === 'died') {
        loose.push(one.die());
        await until('the server to be done with it', proxy.isOver);
      }
      for (const kind of kinds) await begin(kind);
      await untilLeft(database, 0);
      const problems = await problemsOf({ database, operator, known });
      const failed = typeof ended === 'object' && point.fate === 'cut' && scenario.name !== 'producer';
      const all = failed ? [...problems, `it did not go on: ${String(ended.error)}`] : problems;
      return { reached: proxy.hasReached(), statement: proxy.seen()[point.n - 1] ?? '', problems: all };
    } finally {
      loose.push(doomed?.die() ?? Promise.resolve());
      await Promise.all([...running.values()].map((survivor) => survivor.stop()));
      await proxy.close();
    }
  };

  return {
    run,
    close: async () => {
      await Promise.all(loose);
      await operator.close();
      await database.close();
    },
  };
}

type Ending = 'ended' | 'died' | { readonly error: unknown };

interface Doomed {
  /** Resolves when the scenario has ended in time, with an error or without. */
  readonly ended: Promise<Ending>;
  /** Kills it; resolves when nothing of it is left. */
  readonly die: () => Promise<unknown>;
}

interface DoomedParts {
  readonly scenario: Scenario;
  readonly url: string;
  readonly database: Database;
  readonly acknowledged: (id: string) => void;
}

/** Runs the scenario in this process: it dies when its connections end. */
function withinOf({ scenario, url, database, acknowledged }: DoomedParts): Doomed {
  const end = new AbortController();
  const { signal } = end;
  const left: RunParts['left'] = (jobs, atMostMs) => untilLeft(database, jobs, { signal, atMostMs });
  const ended = scenario.run(url, { signal, acknowledged, left, alone: false }).then(
    () => 'ended' as const,
    (error: unknown) => ({ error }),
  );
  return {
    ended,
    die: () => {
      end.abort();
      return ended;
    },
  };
}

/** Runs the scenario in a process of its own, which is killed by a signal. */
function aloneOf({ scenario, url, database, acknowledged }: DoomedParts): Doomed {
  const file = fileURLToPath(new URL('doomed.ts', import.meta.url));
  const child: ChildProcess = fork(file, [scenario.name, url], {
    execArgv: ['--conditions=@pgqueue/source'],
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
  const exited = once(child, 'exit');
  child.on(
    'message',
    (message: { readonly id?: string; readonly left?: number; readonly atMostMs?: number }) => {
      if (message.id !== undefined) acknowledged(message.id);
      if (message.left === undefined) return;
      // its callback takes the error of a process that is killed right then
      const tell = (): void => void (child.connected && child.send('left', () => {}));
      untilLeft(database, message.left, message).then(tell, () => child.kill('SIGKILL'));
    },
  );
  return {
    ended: exited.then(([code]) => (code === 0 ? ('ended' as const) : { error: `exit ${String(code)}` })),
    die: () => {
      child.kill('SIGKILL');
      return exited;
    },
  };
}
