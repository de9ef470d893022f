// Processes of the proof, and the faults that befall them.
import { setTimeout as delay } from 'node:timers/promises';
import type { Actor } from '../../support/actors.ts';
import { startActor } from '../../support/actors.ts';
import { until } from '../../support/until.ts';
import { reignOf } from '../chaos.ts';
import type { Site, Sites, Way } from './servers.ts';

export interface StageOptions {
  readonly sites: Sites;
  readonly random: () => number;
  readonly workers: number;
}

/** A fault, with what it takes for itself while it lasts. */
interface Fault {
  readonly name: string;
  readonly takes: readonly string[];
  readonly act: () => Promise<void>;
}

const upMs = 60_000;

export async function openStage(options: StageOptions): Promise<Stage> {
  const stage = new Stage(options);
  await stage.start();
  return stage;
}

export class Stage {
  readonly #options: StageOptions;
  readonly #actors = new Map<string, Actor>();
  readonly #busy = new Set<string>();
  readonly #under = new Set<Promise<void>>();
  readonly #failed: string[] = [];
  /** How often each fault happened. */
  readonly faults: Map<string, number> = new Map();

  constructor(options: StageOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    const { sites, workers } = this.#options;
    await Promise.all([
      ...sites.all.flatMap((site) => ['a', 'b'].map((name) => this.#startScheduler(site, name))),
      ...Array.from({ length: workers }, (_, n) => this.#startWorker(`worker-${n + 1}`)),
    ]);
    await Promise.all(sites.all.map((site) => led(site)));
  }

  /** Makes one fault, drawn, unless what it needs is hit already. */
  strike(): void {
    const fault = this.#draw();
    if (fault === undefined || fault.takes.some((what) => this.#busy.has(what))) return;
    for (const what of fault.takes) this.#busy.add(what);
    this.faults.set(fault.name, (this.faults.get(fault.name) ?? 0) + 1);
    const done = fault
      .act()
      .catch((error: unknown) => void this.#failed.push(`${fault.name}: ${String(error)}`))
      .finally(() => {
        for (const what of fault.takes) this.#busy.delete(what);
        this.#under.delete(done);
      });
    this.#under.add(done);
  }

  /** Resolves when everything runs again; to the faults that could not be healed. */
  async calm(): Promise<readonly string[]> {
    while (this.#under.size > 0) await Promise.all(this.#under);
    await Promise.all(this.#options.sites.all.map((site) => led(site)));
    return this.#failed;
  }

  async stop(): Promise<void> {
    await Promise.all(this.#under);
    await Promise.all([...this.#actors.values()].map((actor) => actor.stop()));
  }

  #draw(): Fault | undefined {
    const { sites, random, workers } = this.#options;
    const site = sites.all[Math.floor(random() * sites.all.length)];
    if (site === undefined) return undefined;
    const { name } = site.installation;
    const worker = `worker-${1 + Math.floor(random() * workers)}`;
    const chance = random();
    const ms = random();
    if (chance < 0.15) return this.#ofLeader(site, 'killed', (leader) => this.#restart(leader));
    if (chance < 0.25)
      return this.#ofLeader(site, 'frozen', (leader) => this.#freeze(leader, 1_500 + ms * 3_000));
    if (chance < 0.4) return { name: 'worker killed', takes: [worker], act: () => this.#restart(worker) };
    if (chance < 0.5)
      return { name: 'worker frozen', takes: [worker], act: () => this.#freeze(worker, 1_000 + ms * 3_000) };
    if (chance < 0.6 && site.server !== undefined)
      return { name: 'server crashed', takes: [name], act: () => crash(site, 200 + ms * 3_000) };
    const way = (['own', 'others', 'workers', 'clients'] as const)[Math.floor(random() * 4)] ?? 'own';
    const takes = [`${name} ${way}`, name];
    if (chance < 0.8)
      return { name: `way of ${way} blocked`, takes, act: () => block(site, way, 500 + ms * 5_000) };
    return { name: `connections of ${way} reset`, takes, act: () => reset(site, way) };
  }

  #ofLeader(site: Site, how: string, hit: (leader: string) => Promise<void>): Fault {
    const { name } = site.installation;
    const act = async (): Promise<void> => {
      const { leader } = await reignOf(site.database);
      const found = [...this.#actors.keys()].find((one) => leader?.startsWith(one) === true);
      if (found === undefined) return;
      await hit(found);
      await led(site);
    };
    return { name: `leader ${how}`, takes: [`leader of ${name}`, name], act };
  }

  async #freeze(name: string, ms: number): Promise<void> {
    const actor = this.#actors.get(name);
    actor?.signal('SIGSTOP');
    await delay(ms);
    actor?.signal('SIGCONT');
  }

  async #restart(name: string): Promise<void> {
    this.#actors.get(name)?.signal('SIGKILL');
    const site = this.#options.sites.all.find(({ installation }) => name.startsWith(`${installation.name}-`));
    await (site === undefined ? this.#startWorker(name) : this.#startScheduler(site, name.slice(-1)));
  }

  async #startScheduler(site: Site, letter: string): Promise<void> {
    const name = `${site.installation.name}-${letter}`;
    const file = new URL('actors/scheduler.ts', import.meta.url);
    const installations = this.#options.sites.seenBy('others', site);
    const options = { installations, self: site.installation.name };
    this.#actors.set(name, await startActor('scheduler', { url: site.proxies.own.url, name, file, options }));
  }

  async #startWorker(name: string): Promise<void> {
    const file = new URL('actors/worker.ts', import.meta.url);
    const options = { installations: this.#options.sites.seenBy('workers') };
    this.#actors.set(name, await startActor('worker', { url: '', name, file, options }));
  }
}

async function led({ database, installation }: Site): Promise<void> {
  await until(
    `somebody to lead ${installation.name}`,
    async () => {
      const reign = await reignOf(database).catch(() => undefined);
      return reign !== undefined && reign.leader !== null;
    },
    upMs,
  );
}

async function crash(site: Site, ms: number): Promise<void> {
  await site.server?.crash();
  await delay(ms);
  await site.server?.start();
  await led(site);
}

async function block({ proxies }: Site, way: Way, ms: number): Promise<void> {
  const proxy = proxies[way];
  proxy.hold(ms < 3_000 ? 'to-client' : 'to-server');
  await delay(ms);
  // as a firewall does that has forgotten the connections
  proxy.reset();
  proxy.hold(undefined);
}

async function reset({ proxies }: Site, way: Way): Promise<void> {
  proxies[way].reset();
  await delay(500);
}
