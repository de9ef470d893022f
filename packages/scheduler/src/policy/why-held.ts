import type { Candidate, ClosedLane, Holds, Lane } from '@pgqueue/core';
import { laneName } from '@pgqueue/core';

/** Why a plan holds a job of a lane, by its place there; undefined: it went, or others went first. */
export function whyHeld({
  jobs,
  lanes,
  closed,
}: Holds): (lane: Lane, job: Candidate, place: number) => string | undefined {
  let byLane: ReadonlyMap<Lane, ClosedLane> | undefined;
  return (lane, { id }, place) => {
    byLane ??= new Map(closed.map((own) => [own.lane, own] as const));
    const own = byLane.get(lane);
    if (own !== undefined) return own.gate ?? own.reasonOf(place);
    return jobs.get(id) ?? lanes.get(laneName(lane));
  };
}

/** Why a job is held for itself, not with the rest of its lane: of lanes that this tick has read. */
export function heldFresh({ jobs, closed }: Holds): (id: string) => string | undefined {
  const reasons = new Map<string, string>();
  for (const { lane, gate, reasonOf } of closed) {
    if (lane.fresh && gate === null) lane.jobs.forEach(({ id }, place) => reasons.set(id, reasonOf(place)));
  }
  return (id) => jobs.get(id) ?? reasons.get(id);
}

/** The names of all lanes of which something is held. */
export function* heldLanes(
  { jobs, lanes, closed }: Holds,
  laneOf: (id: string) => string,
): Generator<string> {
  yield* lanes.keys();
  for (const { lane } of closed) yield laneName(lane);
  for (const id of jobs.keys()) yield laneOf(id);
}
