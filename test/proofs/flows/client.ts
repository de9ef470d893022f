// Actions on each flow: starts, signals, cancellations and retries, each repeated until it is answered.
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { now } from '../../support/actors/messages.ts';
import type { CutProxy } from '../../support/cut-proxy.ts';
import { startCutProxy } from '../../support/cut-proxy.ts';
import type { FlowPlan } from './plan.ts';

/** A flow that was started, and what has been done to it. */
export interface LiveFlow {
  readonly plan: FlowPlan;
  readonly startedMs: number;
  cancelAsked: boolean;
  readonly signalled: Map<string, number>;
  /** Retries that are left. */
  retriesLeft: number;
  /** True when all that was to be done has been done. */
  over: boolean;
}

export class Client {
  readonly #pool: pg.Pool;
  readonly #proxy: CutProxy;
  readonly #cutPool: pg.Pool;
  /** Starts by what they were answered. */
  readonly starts: Map<string, number> = new Map();
  /** Other calls by what they were answered. */
  readonly answers: Map<string, number> = new Map();

  private constructor(url: string, proxy: CutProxy) {
    this.#pool = new pg.Pool({ connectionString: url, max: 8 });
    this.#proxy = proxy;
    this.#cutPool = new pg.Pool({ connectionString: proxy.url, max: 1 });
    for (const pool of [this.#pool, this.#cutPool]) pool.on('error', () => {}); // expected: faults
  }

  static async open(url: string): Promise<Client> {
    return new Client(url, await startCutProxy(url));
  }

  async #ask(text: string, values: readonly unknown[]): Promise<string> {
    for (let tries = 1; ; tries += 1) {
      try {
        const { rows } = await this.#pool.query<{ answer: string }>(text, [...values]);
        return rows[0]?.answer ?? '';
      } catch (error) {
        if (tries === 100) throw error;
        await delay(100);
      }
    }
  }

  #count(counts: Map<string, number>, answer: string): void {
    counts.set(answer, (counts.get(answer) ?? 0) + 1);
  }

  /** Starts a flow in the way that its plan says; undefined: it is not there, as it should be. */
  async start(plan: FlowPlan): Promise<LiveFlow | undefined> {
    const json = JSON.stringify(plan.definition);
    const text = 'select outcome as answer from pgqueue.start_flow($1::jsonb)';
    let before = '';
    if (plan.start === 'lost') {
      this.#proxy.cutReplyOf('start_flow');
      await this.#cutPool.query(text, [json]).catch(() => (before = 'lost and '));
    } else if (plan.start === 'rolled-back' || plan.start === 'late') {
      const ended = await this.#within(plan.start, text, json);
      if (plan.start === 'rolled-back') {
        this.#count(this.starts, 'rolled back');
        return undefined;
      }
      before = `${ended} late and `;
    }
    const answer = await this.#ask(text, [json]);
    this.#count(this.starts, before + answer);
    if (answer === 'kept') return undefined;
    return {
      plan,
      startedMs: now(),
      cancelAsked: false,
      signalled: new Map(),
      retriesLeft: plan.retries.length,
      over: false,
    };
  }

  /** Starts a flow in a transaction that goes on for a while; how it ended. */
  async #within(how: 'rolled-back' | 'late', text: string, json: string): Promise<string> {
    const client = await this.#pool.connect().catch(() => undefined);
    if (client === undefined) return 'failed';
    const expected = (): void => {}; // the server crashes
    client.on('error', expected);
    try {
      await client.query('begin');
      await client.query(text, [json]);
      await client.query('select pg_sleep($1)', [how === 'late' ? 1.5 : 0.1]);
      await client.query(how === 'late' ? 'commit' : 'rollback');
      client.off('error', expected);
      client.release();
      return 'committed';
    } catch (error) {
      client.release(error instanceof Error ? error : true);
      return 'failed';
    }
  }

  async signal(flow: LiveFlow, step: string): Promise<void> {
    const answer = await this.#ask('select pgqueue.signal_flow($1, $2, $3) as answer', [
      flow.plan.definition.id,
      step,
      JSON.stringify({ by: 'proof' }),
    ]);
    if (answer === 'signalled') flow.signalled.set(step, now());
    this.#count(this.answers, `signal ${answer}`);
  }

  /** Signals a job that may still wait for what its own handler wanted to send. */
  async tell(job: string, signal: string): Promise<void> {
    const text = `select pgqueue.signal_job($1, $2, '"late"') as answer`;
    this.#count(this.answers, `signal of a job ${await this.#ask(text, [job, signal])}`);
  }

  async state(flow: LiveFlow): Promise<string> {
    return this.#ask('select state as answer from pgqueue.flow where id = $1', [flow.plan.definition.id]);
  }

  async cancel(flow: LiveFlow): Promise<void> {
    flow.cancelAsked = true;
    const answer = await this.#ask('select pgqueue.cancel_flow($1) as answer', [flow.plan.definition.id]);
    this.#count(this.answers, `cancel ${answer}`);
  }

  async retry(flow: LiveFlow, step: string | null): Promise<string> {
    const answer = await this.#ask('select proof.retry($1, $2) as answer', [flow.plan.definition.id, step]);
    this.#count(this.answers, `retry ${answer}`);
    return answer;
  }

  async strike(job: string, how: 'cancel' | 'erase'): Promise<void> {
    await this.#ask(`select count(*)::text as answer from pgqueue.${how}(array[$1::uuid])`, [job]);
    this.#count(this.answers, `${how} a job`);
  }

  async close(): Promise<void> {
    await Promise.all([this.#pool.end(), this.#cutPool.end()]);
    await this.#proxy.close();
  }
}
