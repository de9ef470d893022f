import type { Shape } from '@pgqueue/core/internal';
import { aListOf, aNumber, oneOf, optional, throwProblems, valueProblems } from '@pgqueue/core/internal';
import { createFairness } from '../simulation/fairness.ts';
import { createGauge } from '../simulation/gauge.ts';
import type { Settings, SimulateOptions } from '../simulation/options.ts';
import { toSettings } from '../simulation/options.ts';
import type { Joint } from '../simulation/run.ts';
import { startRun } from '../simulation/run.ts';
import { play } from '../simulation/simulate.ts';
import type { Arrival } from '../workloads/arrival.ts';
import { createSlots } from '../workloads/fleet.ts';
import type { FlowArrival } from '../workloads/flow-arrival.ts';
import { inOrder } from '../workloads/workload.ts';
import type { InstallationsSimulation, RoutedResult } from './result.ts';
import { byHome, divideFleet, divideLimits } from './share-out.ts';
import { summaryOf } from './summary.ts';

/** Options of {@link simulateInstallations}. */
export interface InstallationsOptions extends SimulateOptions {
  /** Numbers of installations to try, each 1 to 64. One is always among them, to compare with. */
  readonly installations: readonly number[];
  /**
   * `divided`: each installation has its part of the nodes, so that slots of one can be idle while jobs wait in
   * another. `shared`: a worker serves all, and gives a slot that becomes free to their ready jobs in turn. Default
   * `divided`.
   */
  readonly slots?: 'divided' | 'shared';
}

/** Most installations of a simulation, which holds the state of each in memory. */
const installationsMax = 64;

const shape: Shape<Pick<InstallationsOptions, 'installations' | 'slots'>> = {
  installations: aListOf(
    aNumber({ min: 1, max: installationsMax, whole: true }),
    `a list of numbers from 1 to ${installationsMax}`,
  ),
  slots: optional(oneOf('divided', 'shared')),
};

/**
 * Runs a workload in one installation, and in each of the given numbers of them, as `simulate` does. Each job goes to
 * the home of its key, among installations with the numbers from 1 on, as a router sends it; jobs without a key go in
 * turn, flows by the flow's key. Each installation plans by itself, with its part of the concurrency and the rate of
 * each queue, and of the nodes unless slots are shared. Limits that a policy has of its own are not divided. Attempts
 * that fail at random, by `failures`, are not the same for different numbers.
 * @throws {PgQueueError} `configuration`, with all problems at once: also too few slots to divide
 */
export function simulateInstallations(options: InstallationsOptions): InstallationsSimulation {
  const { installations, slots = 'divided', ...simulated } = options;
  throwProblems('configuration', 'the simulation', [
    ...valueProblems(shape.installations, installations, 'installations'),
    ...valueProblems(shape.slots, slots, 'slots'),
  ]);
  const settings = toSettings(simulated);
  const counts = [...new Set([1, ...installations])];
  const fleets = counts.map((count) => divideFleet(settings.fleet, count));
  if (slots === 'divided')
    throwProblems(
      'configuration',
      'the simulation',
      fleets.flatMap(({ problems }) => problems),
    );
  const arrivals = [...inOrder(settings.workload)];
  return {
    policy: settings.policy.name,
    seed: settings.seed,
    slots,
    results: counts.map((count) => simulateSome(settings, arrivals, { count, shared: slots === 'shared' })),
  };
}

function simulateSome(
  settings: Settings,
  arrivals: readonly (Arrival | FlowArrival)[],
  { count, shared }: { readonly count: number; readonly shared: boolean },
): RoutedResult {
  const startMs = arrivals[0]?.atMs ?? 0;
  const joint: Joint = {
    startMs,
    fairness: createFairness(startMs),
    parts: new Map(),
    overall: createGauge(startMs),
    slots: shared ? createSlots(settings.fleet) : undefined,
  };
  const numbers = Array.from({ length: count }, (_, index) => index + 1);
  const { fleets } = divideFleet(settings.fleet, count);
  const runs = byHome(arrivals, numbers).map((workload, index) =>
    startRun(
      {
        ...settings,
        workload,
        fleet: fleets[index] ?? [],
        queues: divideLimits(settings.queues, { index, count }) as Settings['queues'],
        // jobs without a key are in all installations: together they weigh as much as in one
        weightOf: (lane) => settings.weightOf(lane) / (lane.key === '' ? count : 1),
      },
      joint,
    ),
  );
  play(runs, { shared });
  return summaryOf(runs, joint);
}
