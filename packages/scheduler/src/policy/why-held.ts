import type { Candidate, Holds, Lane } from '@pgqueue/core';
import { laneName } from '@pgqueue/core';

/**
 * Returns a function that says why a plan holds a job, by the job's place in its lane; undefined: the job was
 * dispatched, or others went first.
 */
export function whyHeld({
  jobs,
  lanes,
  closed,
}: Holds): (lane: Lane, job: Candidate, place: number) => string | undefined {
  return (lane, { id }, place) => {
    const own = closed.of(lane);
    if (own !== undefined) return own.gate ?? own.reasonOf(place);
    return jobs.get(id) ?? lanes.get(laneName(lane));
  };
}

/**
 * Returns a function that says why a job is held by itself, not with the rest of its lane. For closed lanes,
 * it covers only those this tick has read.
 */
export function heldFresh(
  { jobs, closed }: Holds,
  fresh: readonly Lane[],
): (id: string) => string | undefined {
  const reasons = new Map<string, string>();
  for (const lane of fresh) {
    const own = closed.of(lane);
    if (own?.gate === null) lane.jobs.forEach(({ id }, place) => reasons.set(id, own.reasonOf(place)));
  }
  return (id) => jobs.get(id) ?? reasons.get(id);
}

/** Yields the names of all lanes in which something is held. */
export function* heldLanes(
  { jobs, lanes, closed }: Holds,
  laneOf: (id: string) => string,
): Generator<string> {
  yield* lanes.keys();
  for (const { lane } of closed.all()) yield laneName(lane);
  for (const id of jobs.keys()) yield laneOf(id);
}
