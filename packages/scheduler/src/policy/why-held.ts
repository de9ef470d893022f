import type { Candidate, Holds, Lane } from '@pgqueue/core';
import { laneName } from '@pgqueue/core';

/** Why a plan holds a job of a lane, by its place there; undefined: it went, or others went first. */
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

/** Why a job is held for itself, not with the rest of its lane: of these lanes, those that this tick has read. */
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

/** The names of all lanes of which something is held. */
export function* heldLanes(
  { jobs, lanes, closed }: Holds,
  laneOf: (id: string) => string,
): Generator<string> {
  yield* lanes.keys();
  for (const { lane } of closed.all()) yield laneName(lane);
  for (const id of jobs.keys()) yield laneOf(id);
}
