// The processes of a run. Each has a slot; who dies is started again, at once or when the fault that took it gives it back.
import { closeSync, mkdirSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Actor } from '../support/actors.ts';
import { startActor } from '../support/actors.ts';
import type { Clock } from '../support/servers/clock.ts';
import type { ChaosConfig } from './actors/config.ts';
import type { Write } from './record.ts';

export type Role = 'producer' | 'scheduler' | 'worker';

/** A place for a process. */
export interface SlotOptions {
  readonly name: string;
  readonly role: Role;
  readonly url: string;
  /** False behind a pooler. */
  readonly listen: boolean;
  /** Its wall clock, where that can be set. */
  readonly clock?: Clock;
  /** True for a worker on the Python client. */
  readonly python?: boolean;
}

export interface Fleet {
  readonly names: (role: Role) => readonly string[];
  /** The process that is there at present, unless it is dead or just starting. */
  readonly actor: (name: string) => Actor | undefined;
  /** From now on nobody starts it again, and its end is no surprise. */
  readonly take: (name: string) => void;
  /** Starts it again where it has ended; resolves when it runs, or after a minute. */
  readonly giveBack: (name: string) => Promise<void>;
  readonly clock: (name: string) => Clock | undefined;
  /** Starts all; resolves when they run. */
  readonly start: () => Promise<void>;
  readonly stopRole: (role: Role) => Promise<void>;
  readonly stop: () => Promise<void>;
}

export interface FleetOptions {
  readonly slots: readonly SlotOptions[];
  readonly config: Omit<ChaosConfig, 'listen'>;
  readonly write: Write;
}

const restartMs = 200;
const triesMax = 5;
const heapMb = 160;

export function openFleet(options: FleetOptions): Fleet {
  mkdirSync(logsOf(options), { recursive: true });
  const slots = new Map(options.slots.map((slot) => [slot.name, new Slot(slot, options)]));
  const slotOf = (name: string): Slot => {
    const slot = slots.get(name);
    if (slot === undefined) throw new Error(`no process ${name}`);
    return slot;
  };
  const all = (role?: Role): readonly Slot[] =>
    [...slots.values()].filter((slot) => role === undefined || slot.options.role === role);
  const stopAll = async (which: readonly Slot[]): Promise<void> => {
    await Promise.all(which.map((slot) => slot.stop()));
  };
  return {
    names: (role) => all(role).map((slot) => slot.options.name),
    actor: (name) => slotOf(name).actor,
    take: (name) => slotOf(name).take(),
    giveBack: (name) => slotOf(name).giveBack(),
    clock: (name) => slotOf(name).options.clock,
    start: async () => {
      await Promise.all(all().map((slot) => slot.start()));
    },
    stopRole: (role) => stopAll(all(role)),
    stop: () => stopAll(all()),
  };
}

function logsOf({ config }: FleetOptions): string {
  return join(config.folder, 'logs');
}

class Slot {
  readonly options: SlotOptions;
  readonly #fleet: FleetOptions;
  actor: Actor | undefined;
  /** By a fault, or for good. */
  #taken = false;
  #stopping = false;
  #starting: Promise<void> | undefined;

  constructor(options: SlotOptions, fleet: FleetOptions) {
    this.options = options;
    this.#fleet = fleet;
  }

  take(): void {
    this.#taken = true;
  }

  async giveBack(): Promise<void> {
    this.#taken = false;
    this.actor?.signal('SIGCONT');
    await this.start();
  }

  start(): Promise<void> {
    if (this.actor !== undefined || this.#stopping) return Promise.resolve();
    this.#starting ??= this.#startTrying().finally(() => {
      this.#starting = undefined;
    });
    return this.#starting;
  }

  async stop(): Promise<void> {
    this.#taken = true;
    this.#stopping = true;
    await this.#starting?.catch(() => {}); // told already
    await this.actor?.stop();
  }

  /** Poison, or a fault, may end it before it is ready. */
  async #startTrying(): Promise<void> {
    for (let tries = 1; !this.#stopping && this.actor === undefined; tries += 1) {
      try {
        await this.#begin();
      } catch (error) {
        this.#ended(String(error), String(error).includes('SIGKILL'));
        if (tries === triesMax) throw error;
        await delay(restartMs);
      }
    }
  }

  async #begin(): Promise<void> {
    const { name, role, url, listen, clock, python = false } = this.options;
    const { config } = this.#fleet;
    const output = openSync(join(logsOf(this.#fleet), `${name}.log`), 'a');
    try {
      this.#keep(
        await startActor(role, {
          url,
          name,
          ...(role === 'scheduler'
            ? { options: { leaseMs: config.schedulerLeaseMs, queryTimeoutMs: 5_000, listen, ...schedulers } }
            : { options: { ...config, listen }, file: fileOf(role, python ? 'py' : 'ts') }),
          execArgv: execArgvOf(role),
          env: { ...clock?.env, PGQUEUE_TEST_HISTORY: config.folder },
          output,
        }),
      );
    } finally {
      closeSync(output);
    }
  }

  #keep(actor: Actor): void {
    const { process: child } = actor;
    this.actor = actor;
    const ended = (): void => {
      if (this.actor !== actor) return;
      this.actor = undefined;
      // poison is the only one that kills beside the faults
      const expected = this.#taken || (this.options.role === 'worker' && child.signalCode === 'SIGKILL');
      this.#ended(child.signalCode ?? `exit ${child.exitCode}`, expected);
      if (!this.#taken) void delay(restartMs).then(() => this.start().catch(() => {})); // told as an end of its own
    };
    child.once('exit', ended);
    if (child.exitCode !== null || child.signalCode !== null) ended();
  }

  #ended(why: string, expected: boolean): void {
    this.#fleet.write({ type: 'down', node: this.options.name, why, expected });
  }
}

const fileOf = (name: string, language: 'ts' | 'py' = 'ts'): URL =>
  new URL(`actors/${name}.${language}`, import.meta.url);

const schedulers = { policies: fileOf('policies').href, policy: 'bench' };

function execArgvOf(role: Role): readonly string[] {
  const argv = ['--conditions=@pgqueue/source', `--import=${fileOf('leave').href}`];
  if (role === 'producer') return argv;
  const tapped = [...argv, `--import=${fileOf('tap').href}`];
  return role === 'worker' ? [...tapped, `--max-old-space-size=${heapMb}`] : tapped;
}
