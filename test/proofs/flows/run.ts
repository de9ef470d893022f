// One run: random flows under faults, then quiet, then the verdict.
import { setTimeout as delay } from 'node:timers/promises';
import { openDatabase } from '@pgqueue/postgres/internal';
import { breaches } from '@pgqueue/postgres/internal';
import { until } from '../../support/until.ts';
import { chances } from '../../chaos/workload.ts';
import type { LiveFlow } from './client.ts';
import { Client } from './client.ts';
import type { Known } from './judge.ts';
import { aliveWithout, judgeFlow } from './judge.ts';
import type { FlowPlan } from './plan.ts';
import { planFlow } from './plan.ts';
import type { FlowRecord } from './record.ts';
import { readFlows, recordFlows } from './record.ts';
import type { Pause, Restartable } from './stage.ts';
import { openStage, watchStalls } from './stage.ts';

export interface FlowsOptions {
  /** A migrated database of its own, of a superuser. */
  readonly url: string;
  readonly seed: number;
  /** Milliseconds of faults. */
  readonly ms: number;
  readonly stepsMax?: number;
  readonly openMax?: number;
  readonly server?: Restartable;
  /** Longest time from the last end that a step waits for to the step's own. Default 1,000: the promise. */
  readonly promptMs?: number;
}

/** A flow with what is wrong about it; none: something that concerns no single flow. */
export interface Violation {
  readonly what: readonly string[];
  readonly plan?: FlowPlan;
  readonly record?: FlowRecord;
}

export interface FlowsReport {
  readonly flows: number;
  readonly jobs: number;
  /** Jobs that have come to their waits. */
  readonly durable: number;
  readonly faults: Readonly<Record<string, number>>;
  readonly starts: Readonly<Record<string, number>>;
  readonly answers: Readonly<Record<string, number>>;
  readonly states: Readonly<Record<string, number>>;
  /** Longest time from the last end that a step waited for, while a leader was alive. */
  readonly latestMs: number;
  /** Times that count for nobody: without a leader, or in which the machine stood still. */
  readonly pauses: readonly Pause[];
  readonly violations: readonly Violation[];
}

/** Time for everything to end once nothing disturbs it. */
const quietMs = 60_000;
const faultEveryMs = 1_500;
const toldEveryMs = 2_000;

export async function flowsRun(options: FlowsOptions): Promise<FlowsReport> {
  const { url, seed, ms, stepsMax = 50, openMax = 25, server, promptMs = 1_000 } = options;
  const database = openDatabase({ connectionString: url, connectionsMax: 4 });
  await recordFlows(database);
  await database.query(`insert into pgqueue.queue_config (queue, retention) values ('brief', '0')`, []);
  const random = chances('faults', seed);
  const stage = await openStage({ url, database, random, server });
  const client = await Client.open(url);
  const stalls = watchStalls(url);
  const life = new Life(client);
  const never: FlowPlan[] = [];
  try {
    const endsAt = performance.now() + ms;
    const disturbed = disturb(stage, { ms, random });
    for (let n = 0; performance.now() < endsAt; n += 1) {
      const plan = planFlow(seed, n, stepsMax);
      const flow = await client.start(plan);
      if (flow === undefined) never.push(plan);
      else life.begin(flow);
      await delay(20 + random() * 150);
      while (life.open >= openMax && performance.now() < endsAt) await delay(20);
    }
    await disturbed;
    await stage.calm();
    await until('all flows to end', () => life.open === 0, quietMs).catch(() => {}); // judged as open
    await until('no tally to be left', async () => (await left(database)) === 0, 5_000).catch(() => {});
    await until('no flow to be waited for', async () => (await waited(database)).length === 0, 5_000).catch(
      () => {},
    );
    const aliveMs = aliveWithout([...stage.pauses, ...stalls.pauses]);
    const judged = await judgeAll(database, life.flows, { aliveMs, promptMs });
    const there = await readFlows(
      database,
      never.filter(({ start }) => start === 'rolled-back').map(({ definition }) => definition.id),
    );
    const wrong = await database.query<{ readonly flow: string; readonly what: string }>(
      'select flow, what from proof.wrong order by n',
      [],
    );
    const rest = [
      ...wrong.map(({ flow, what }) => `flow ${flow}: ${what}`),
      ...[...there.keys()].map((id) => `flow ${id} was rolled back, and is there`),
      ...(await waited(database)),
      ...((await left(database)) > 0 ? [`${await left(database)} tallies are left`] : []),
      ...(await breaches(database)).map((breach) => JSON.stringify(breach)),
    ];
    return {
      flows: life.flows.length,
      jobs: judged.jobs,
      durable: (await database.query('select distinct job from proof.drawn', [])).length,
      faults: Object.fromEntries(stage.faults),
      starts: Object.fromEntries(client.starts),
      answers: Object.fromEntries(client.answers),
      states: judged.states,
      latestMs: judged.latestMs,
      pauses: [...stage.pauses, ...stalls.pauses],
      violations: [...judged.violations, ...(rest.length > 0 ? [{ what: rest }] : [])],
    };
  } finally {
    life.stop();
    await stalls.stop();
    await client.close();
    await stage.stop();
    await database.close();
  }
}

type Queried = Parameters<typeof readFlows>[0];

async function left(database: Queried): Promise<number> {
  const [row] = await database.query<{ n: number }>(
    'select count(*)::integer as n from pgqueue.flow_tally',
    [],
  );
  return row?.n ?? NaN;
}

/** Flows that jobs have waited for, and that are open though nothing else is. */
async function waited(database: Queried): Promise<readonly string[]> {
  const rows = await database.query<{ readonly id: string; readonly waiter: string }>(
    `select id, waiter from pgqueue.flow where state = 'open' and waiter is not null`,
    [],
  );
  return rows.map(({ id, waiter }) => `flow ${id} of job ${waiter} is open`);
}

async function disturb(
  stage: Awaited<ReturnType<typeof openStage>>,
  { ms, random }: { readonly ms: number; readonly random: () => number },
): Promise<void> {
  const began = performance.now();
  let restarted = false;
  while (performance.now() - began < ms) {
    await delay(faultEveryMs * (0.5 + random()));
    if (!restarted && performance.now() - began > ms / 2) {
      restarted = true;
      await stage.calm();
      await stage.restart();
    } else await stage.strike().catch(() => {}); // a cut connection of this process's own
  }
}

/** Lives of all flows: what is done to them at their times, and when they end. */
class Life {
  readonly #client: Client;
  readonly flows: LiveFlow[] = [];
  readonly #stopping = new AbortController();

  constructor(client: Client) {
    this.#client = client;
  }

  get open(): number {
    return this.flows.filter(({ over }) => !over).length;
  }

  stop(): void {
    this.#stopping.abort();
  }

  begin(flow: LiveFlow): void {
    this.flows.push(flow);
    const left = (error: unknown): void => {
      if (!this.#stopping.signal.aborted) console.error('a flow was left alone:', error);
    };
    void this.#live(flow).catch(left);
    void this.#tell(flow).catch(left);
  }

  /** Signals the jobs that wait for it: the process that wanted to may have been killed. */
  async #tell(flow: LiveFlow): Promise<void> {
    const jobs = flow.plan.definition.steps.flatMap(({ jobs }) => jobs);
    const told = jobs.flatMap(({ id, payload }) =>
      Array.from({ length: payload.durable?.told ?? 0 }, (_, n) => [id, `told-${n}`] as const),
    );
    while (told.length > 0) {
      await this.#pause(toldEveryMs);
      if (flow.over) return;
      for (const [id, signal] of told) await this.#client.tell(id, signal);
    }
  }

  async #live(flow: LiveFlow): Promise<void> {
    const { plan } = flow;
    const random = chances('retries', plan.definition.id);
    const acts: Promise<void>[] = [
      ...plan.signals.map(async ({ step, atMs, times }) => {
        await this.#pause(atMs);
        for (let time = 0; time < times; time += 1) await this.#client.signal(flow, step);
      }),
      ...plan.strikes.map(async ({ job, atMs, how }) => {
        await this.#pause(atMs);
        await this.#client.strike(job, how);
      }),
      ...plan.retries.map(async ({ openAtMs, whole }) => {
        if (openAtMs === null) return;
        await this.#pause(openAtMs);
        await this.#retry(flow, whole, random);
      }),
    ];
    if (plan.cancelAtMs !== null) {
      const atMs = plan.cancelAtMs;
      acts.push(this.#pause(atMs).then(() => this.#client.cancel(flow)));
    }
    await Promise.all(acts);
    for (const { openAtMs, whole } of plan.retries) {
      const state = await this.#ended(flow);
      if (openAtMs !== null || state === 'done') continue;
      await this.#retry(flow, whole, random);
    }
    await this.#ended(flow);
    flow.over = true;
  }

  /** Retries, and sends all signals again: some may have come to a step that had ended then. */
  async #retry(flow: LiveFlow, whole: boolean, random: () => number): Promise<void> {
    const { steps } = flow.plan.definition;
    const step = whole ? undefined : steps[Math.floor(random() * steps.length)];
    const answer = await this.#client.retry(flow, step?.name ?? null);
    if (answer !== 'retried') return;
    for (const { step } of flow.plan.signals) await this.#client.signal(flow, step);
  }

  async #ended(flow: LiveFlow): Promise<string> {
    for (;;) {
      const state = await this.#client.state(flow);
      if (state !== 'open') return state;
      await this.#pause(150);
    }
  }

  #pause(ms: number): Promise<void> {
    return delay(ms, undefined, { signal: this.#stopping.signal });
  }
}

async function judgeAll(
  database: Queried,
  flows: readonly LiveFlow[],
  beside: Pick<Known, 'aliveMs' | 'promptMs'>,
): Promise<{
  readonly violations: readonly Violation[];
  readonly jobs: number;
  readonly states: Readonly<Record<string, number>>;
  readonly latestMs: number;
}> {
  const violations: Violation[] = [];
  const states: Record<string, number> = {};
  let [jobs, latestMs] = [0, 0];
  for (let at = 0; at < flows.length; at += 50) {
    const some = flows.slice(at, at + 50);
    const records = await readFlows(
      database,
      some.map(({ plan }) => plan.definition.id),
    );
    for (const { plan, cancelAsked, signalled, startedMs } of some) {
      const record = records.get(plan.definition.id);
      if (record === undefined) {
        violations.push({ what: ['it is not there'], plan });
        continue;
      }
      const found = judgeFlow(plan, record, { cancelAsked, signalled, startedMs, ...beside });
      states[record.state] = (states[record.state] ?? 0) + 1;
      jobs += new Set(record.moves.map(({ job }) => job)).size;
      latestMs = Math.max(latestMs, found.latestMs);
      if (found.wrong.length > 0) violations.push({ what: found.wrong, plan, record });
    }
  }
  return { violations, jobs, states, latestMs };
}
