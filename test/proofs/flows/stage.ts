// The processes of the proof, and the faults that befall them.
import { setTimeout as delay } from 'node:timers/promises';
import type { Database } from '@pgqueue/postgres';
import pg from 'pg';
import { now } from '../../support/actors/messages.ts';
import type { Actor } from '../../support/actors.ts';
import { startActor } from '../../support/actors.ts';
import type { CutProxy } from '../../support/cut-proxy.ts';
import { startCutProxy } from '../../support/cut-proxy.ts';
import { until } from '../../support/until.ts';
import { reignOf } from '../chaos.ts';

export interface Pause {
  readonly fromMs: number;
  readonly toMs: number;
}

/** A server that the proof may restart. */
export interface Restartable {
  readonly crash: () => Promise<void>;
  readonly start: () => Promise<void>;
}

type Role = 'scheduler' | 'worker' | 'grower';

const roles: readonly (readonly [string, Role])[] = [
  ['scheduler-a', 'scheduler'],
  ['scheduler-b', 'scheduler'],
  ['worker-a', 'worker'],
  ['worker-b', 'worker'],
  ['grower-a', 'grower'],
];

export interface StageOptions {
  readonly url: string;
  readonly database: Database;
  readonly random: () => number;
  readonly server: Restartable | undefined;
}

/** Opens the proxies, and starts all processes. */
export async function openStage(options: StageOptions): Promise<Stage> {
  const { url } = options;
  const [schedulers, workers] = [await startCutProxy(url), await startCutProxy(url)];
  const stage = new Stage(options, { schedulers, workers });
  await stage.startAll();
  return stage;
}

export class Stage {
  readonly #options: StageOptions;
  readonly #proxies: { readonly schedulers: CutProxy; readonly workers: CutProxy };
  readonly #actors = new Map<string, Actor>();
  /** Processes that are dead, frozen or just starting. */
  readonly #busy = new Set<string>();
  readonly #under = new Set<Promise<void>>();
  /** Times without a leader. */
  readonly pauses: Pause[] = [];
  /** How often each fault happened. */
  readonly faults: Map<string, number> = new Map();

  constructor(options: StageOptions, proxies: { readonly schedulers: CutProxy; readonly workers: CutProxy }) {
    this.#options = options;
    this.#proxies = proxies;
  }

  async startAll(): Promise<void> {
    await Promise.all(roles.map(([name, role]) => this.#start(name, role)));
    await this.#led();
  }

  async #start(name: string, role: Role): Promise<void> {
    const { url } = this.#options;
    const proxy = role === 'scheduler' ? this.#proxies.schedulers : this.#proxies.workers;
    const own =
      role === 'scheduler'
        ? { options: { leaseMs: 1_000, queryTimeoutMs: 5_000 } }
        : { options: { ledgerUrl: url }, file: new URL(`actors/${role}.ts`, import.meta.url) };
    const kind = role === 'scheduler' ? 'scheduler' : 'worker';
    this.#actors.set(name, await startActor(kind, { url: proxy.url, name, ...own }));
  }

  async #led(): Promise<void> {
    await until('somebody to lead', async () => {
      const reign = await reignOf(this.#options.database).catch(() => undefined);
      return reign !== undefined && reign.leader !== null;
    });
  }

  /** Waits for a leader in another epoch, and notes the time until then as one without a leader. */
  async #newLeader(fromMs: number, epoch: number): Promise<void> {
    await until('another leader', async () => {
      const reign = await reignOf(this.#options.database).catch(() => undefined);
      return reign !== undefined && reign.leader !== null && reign.epoch !== epoch;
    });
    this.pauses.push({ fromMs, toMs: now() });
  }

  #count(fault: string): void {
    this.faults.set(fault, (this.faults.get(fault) ?? 0) + 1);
  }

  /** Lets it happen beside others; a process that is hit already is left alone. */
  #beside(fault: string, name: string, act: () => Promise<void>): void {
    if (this.#busy.has(name)) return;
    this.#busy.add(name);
    this.#count(fault);
    const done = act().finally(() => {
      this.#busy.delete(name);
      this.#under.delete(done);
    });
    this.#under.add(done);
  }

  #kill(name: string, role: Role): Promise<void> {
    this.#actors.get(name)?.signal('SIGKILL');
    return this.#start(name, role);
  }

  async #freeze(name: string, ms: number): Promise<void> {
    this.#actors.get(name)?.signal('SIGSTOP');
    await delay(ms);
    this.#actors.get(name)?.signal('SIGCONT');
  }

  async #hitLeader(how: 'kill' | 'freeze'): Promise<void> {
    const { leader, epoch } = await reignOf(this.#options.database);
    const name = [...this.#actors.keys()].find((one) => leader?.startsWith(one) === true);
    if (name === undefined || this.#busy.has('scheduler-a') || this.#busy.has('scheduler-b')) return;
    const fromMs = now();
    this.#beside(`leader ${how === 'kill' ? 'killed' : 'frozen'}`, name, async () => {
      const hit = how === 'kill' ? this.#kill(name, 'scheduler') : this.#freeze(name, 1_500);
      await Promise.all([hit, this.#newLeader(fromMs, epoch)]);
    });
  }

  /** Cuts the connection of the next such statement in place of its reply. */
  #cut(proxy: 'schedulers' | 'workers', part: string): void {
    this.#count(`reply of ${part} lost`);
    this.#proxies[proxy].cutReplyOf(part);
    // the leader's loops may pause before they try again
    if (proxy === 'schedulers') this.pauses.push({ fromMs: now(), toMs: now() + 1_000 });
  }

  async #hold(ms: number): Promise<void> {
    const client = new pg.Client({ connectionString: this.#options.url });
    client.on('error', () => {}); // expected: the server restarts
    await client.connect();
    await client.query('begin isolation level repeatable read');
    await client.query('select count(*) from pgqueue.queue');
    await delay(ms);
    await client.end().catch(() => {});
  }

  /** One fault, drawn. */
  async strike(): Promise<void> {
    const { random } = this.#options;
    const worker = random() < 0.5 ? 'worker-a' : 'worker-b';
    const frozen = random() < 0.3 ? 'grower-a' : worker;
    const parts = ['settle', 'settle', 'fan_out', 'add_jobs', 'commit', 'claim'];
    const part = parts[Math.floor(random() * parts.length)] ?? 'settle';
    const chance = random();
    if (chance < 0.15) await this.#hitLeader('kill');
    else if (chance < 0.22) await this.#hitLeader('freeze');
    else if (chance < 0.36) this.#beside('worker killed', worker, () => this.#kill(worker, 'worker'));
    else if (chance < 0.44) this.#beside('grower killed', 'grower-a', () => this.#kill('grower-a', 'grower'));
    else if (chance < 0.54)
      this.#beside('worker frozen', frozen, () => this.#freeze(frozen, 1_800 + random() * 1_200));
    else if (chance < 0.7) this.#cut('schedulers', random() < 0.8 ? 'advance_flows' : 'stop_jobs');
    else if (chance < 0.92) this.#cut('workers', part);
    else
      this.#beside('snapshot held', 'snapshot', () => this.#hold(4_000 + random() * 6_000).catch(() => {}));
  }

  /** Crashes the server, and starts it again. */
  async restart(): Promise<void> {
    const { server } = this.#options;
    if (server === undefined) return;
    this.#count('server crashed');
    const fromMs = now();
    await server.crash();
    await delay(300);
    await server.start();
    await this.#led();
    // every process finds its way back
    await delay(1_000);
    this.pauses.push({ fromMs, toMs: now() });
  }

  /** Resolves when everything runs again. */
  async calm(): Promise<void> {
    while (this.#under.size > 0) await Promise.all(this.#under);
    await this.#led();
  }

  async stop(): Promise<void> {
    await Promise.allSettled(this.#under);
    await Promise.all([...this.#actors.values()].map((actor) => actor.stop()));
    await Promise.all(Object.values(this.#proxies).map((proxy) => proxy.close()));
  }
}

/**
 * Notes when the machine, or the server, stands still: a loop that should answer every 50 ms does not for
 * more than `stallMs`.
 */
export function watchStalls(
  url: string,
  stallMs = 250,
): { readonly pauses: Pause[]; readonly stop: () => Promise<void> } {
  const pauses: Pause[] = [];
  const stopping = new AbortController();
  const run = async (): Promise<void> => {
    let client: pg.Client | undefined;
    let answeredMs = now();
    while (!stopping.signal.aborted) {
      try {
        if (client === undefined) {
          client = new pg.Client({ connectionString: url });
          client.on('error', () => (client = undefined));
          await client.connect();
        }
        await client.query('select 1');
        if (now() - answeredMs > stallMs) pauses.push({ fromMs: answeredMs, toMs: now() });
        answeredMs = now();
      } catch {
        client = undefined;
      }
      await delay(50);
    }
    await client?.end().catch(() => {});
  };
  const running = run();
  return {
    pauses,
    stop: async () => {
      stopping.abort();
      await running;
    },
  };
}
