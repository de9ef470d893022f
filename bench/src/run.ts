import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { commitOf, thisMachine, versionOf } from './actors/machine.ts';
import type { BenchOptions } from './options.ts';
import { partsOf } from './actors/plans.ts';
import type { RedisServer } from './actors/redis.ts';
import { startRedis } from './actors/redis.ts';
import type { Contestant, Report, Run, Sizes } from './report/report.ts';
import { isMeasured, mergeReports } from './report/report.ts';
import type { Server } from './actors/server.ts';
import { openServer } from './actors/server.ts';
import type { StageOptions } from './actors/stage.ts';
import { openStage } from './actors/stage.ts';
import type { Step } from './steps.ts';
import { nameOf, stepsOf } from './steps.ts';

export interface Listeners {
  readonly command: string;
  /** Called with a line of progress. */
  readonly say: (line: string) => void;
  /** Called with the report after every run, so that a later failure loses nothing measured. */
  readonly keep: (report: Report) => void;
  /** Earlier report to continue; its runs are not repeated. */
  readonly earlier: Report | undefined;
  /** Ends the benchmark: the current run is dropped, and the finished ones are returned. */
  readonly signal: AbortSignal;
}

/** Runs all steps that the options name. An error becomes a fault of its run, and the other runs continue. */
export async function runBench(options: BenchOptions, listeners: Listeners): Promise<Report> {
  const { command, say, keep, earlier, signal } = listeners;
  const steps = await stepsOf(options, partsOf(options));
  const scratch = mkdtempSync(join(tmpdir(), 'pgqueue-bench-'));
  const startedAt = new Date().toISOString();
  const startedMs = performance.now();
  const server = await openServer(options.databaseUrl);
  let redis: RedisServer | undefined;
  try {
    if (steps.some(({ peer }) => peer.store === 'redis')) redis = await startRedis();
    const empty: Report = { commands: [command], startedAt, ...factsOf(steps, { server, redis }), runs: [] };
    const begun = earlier === undefined ? empty : mergeReports([earlier, empty]);
    const left = steps.filter((step) => !isMeasured(begun, nameOf(step), sizesOf(step)));
    if (left.length < steps.length)
      say(`${steps.length - left.length} of ${steps.length} runs are there already`);
    const runs: Run[] = [];
    const report = (): Report => ({ ...begun, runs: [...begun.runs, ...runs] });
    const isOver = (): boolean =>
      signal.aborted || performance.now() - startedMs > options.withinMinutes * 60_000;
    const [all, queue] = [left.length, [...left]];
    const lane = async (): Promise<void> => {
      for (let step = queue.shift(); step !== undefined && !isOver(); step = queue.shift()) {
        const run = await runStep(step, { server, redis, profile: options.profile, scratch }, signal);
        if (signal.aborted) return;
        runs.push(run);
        say(`${runs.length}/${all} ${lineOf(run)}`);
        keep(report());
      }
    };
    // two at a time in a smoke run, where timing does not matter; with Redis one, since every stage uses and
    // empties the same server
    const lanes = options.smoke && redis === undefined ? 2 : 1;
    await Promise.all(Array.from({ length: lanes }, lane));
    if (runs.length < all) say(`${all - runs.length} of ${all} runs are left: go on with --resume`);
    return report();
  } finally {
    await redis?.stop();
    await server.stop();
    rmSync(scratch, { recursive: true, force: true });
  }
}

function factsOf(
  steps: readonly Step[],
  { server, redis }: { readonly server: Server; readonly redis: RedisServer | undefined },
): Pick<Report, 'commit' | 'machine' | 'postgres' | 'redis' | 'contestants'> {
  const contestants = new Map<string, Contestant>();
  for (const { peer, setting } of steps) {
    contestants.set(`${peer.name}:${setting.name}`, {
      peer: peer.name,
      setting: setting.name,
      version: peer.packageName === undefined ? '' : versionOf(peer.packageName),
      says: setting.says,
    });
  }
  return {
    commit: commitOf(),
    machine: thisMachine(),
    postgres: { version: server.version, settings: server.settings },
    redis: redis === undefined ? undefined : { version: redis.version, settings: redis.settings },
    contestants: [...contestants.values()],
  };
}

function sizesOf({ options: { jobs, seconds } }: Step): Sizes {
  return { jobs, seconds };
}

async function runStep(
  step: Step,
  stageOf: Omit<StageOptions, 'peer' | 'setting'>,
  signal: AbortSignal,
): Promise<Run> {
  const { peer, setting, one, options } = step;
  const began = performance.now();
  const named = { ...nameOf(step), sizes: sizesOf(step) };
  const took = (): number => Math.round(performance.now() - began) / 1_000;
  const stopped = Promise.withResolvers<never>();
  stopped.promise.catch(() => {}); // a rejection is handled by the race below, if that is reached
  const stop = (): void => stopped.reject(new Error('stopped'));
  signal.addEventListener('abort', stop, { once: true });
  try {
    const stage = await openStage({ ...stageOf, peer, setting });
    try {
      const measured = await Promise.race([one.run(stage, options), stopped.promise]);
      return { ...named, ...measured, tookSeconds: took() };
    } finally {
      await stage.close();
    }
  } catch (error) {
    const fault = error instanceof Error ? error.message : String(error);
    return { ...named, metrics: {}, faults: [fault], tookSeconds: took() };
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

function lineOf({ work, case: name, peer, setting, repetition, metrics, faults }: Run): string {
  const figures = Object.entries(metrics)
    .filter(([, value]) => !Number.isNaN(value))
    .map(([metric, value]) => `${metric} ${value >= 100 ? Math.round(value) : Number(value.toPrecision(3))}`);
  const wrong = faults.length === 0 ? '' : ` FAULTS: ${faults.join('; ')}`;
  return `${work}, ${name}, ${peer}:${setting}, #${repetition}: ${figures.join(', ')}${wrong}`;
}
