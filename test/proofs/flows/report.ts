import type { FlowsReport, Violation } from './run.ts';

const shownMax = 5;

/** The last line of a run. */
export function lineOf({ flows, jobs, faults, violations }: FlowsReport): string {
  const count = Object.values(faults).reduce((sum, times) => sum + times, 0);
  return `flows ${flows}, jobs ${jobs}, faults ${count}, violations ${violations.length}`;
}

/** Prints what a run has done, and each violation with all that is known of its flow. */
export function tell({ violations, pauses, ...rest }: FlowsReport, seed: number): void {
  console.log(JSON.stringify(rest, undefined, 1));
  if (violations.length > 0) {
    const times = pauses.map(
      ({ fromMs, toMs }) => `${new Date(fromMs).toISOString()} ${Math.round(toMs - fromMs)} ms`,
    );
    console.log(`pauses:\n  ${times.toSorted().join('\n  ')}`);
  }
  for (const violation of violations.slice(0, shownMax)) tellOne(violation, seed);
  for (const { plan, what } of violations.slice(shownMax)) {
    console.log(`seed ${seed}, flow ${plan?.definition.id ?? ''}: ${what.slice(0, 3).join('; ')}`);
  }
}

function tellOne({ what, plan, record }: Violation, seed: number): void {
  console.log(`\nseed ${seed}, flow ${plan?.definition.id ?? ''}:\n  ${what.slice(0, 20).join('\n  ')}`);
  if (plan !== undefined) {
    const { definition, ...acts } = plan;
    console.log(`  acts: ${JSON.stringify(acts)}`);
    for (const { jobs, ...step } of definition.steps) {
      console.log(
        `  ${JSON.stringify(step)} ${jobs.length} jobs: ${JSON.stringify(jobs.map(({ id, payload }) => [id, payload]))}`,
      );
    }
  }
  if (record === undefined) return;
  const { steps, moves, ran, retries, results, dead, ...flow } = record;
  console.log(`  flow: ${JSON.stringify(flow)}`);
  for (const step of steps) console.log(`  step: ${JSON.stringify(step)}`);
  for (const retry of retries) console.log(`  retry: ${JSON.stringify(retry)}`);
  console.log(`  results: ${JSON.stringify([...results])}\n  dead: ${[...dead].join(' ')}`);
  for (const { kind, job, step, atMs, again } of moves) {
    console.log(`  ${kind} ${new Date(atMs).toISOString()} step ${step} job ${job}${again ? ' again' : ''}`);
  }
  for (const { what, job, step, atMs } of ran) {
    console.log(`  ${what} ${new Date(atMs).toISOString()} step ${step} job ${job}`);
  }
}
