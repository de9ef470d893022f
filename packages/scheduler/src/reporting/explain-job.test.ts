import { createHash } from 'node:crypto';
import { compareInKey } from '@pgqueue/core';
import type { Candidate, InFlight, Lane, Snapshot } from '@pgqueue/core';
import { defaultQueue } from '@pgqueue/core/internal';
import { describe, expect, test } from 'vitest';
import type { Flying } from '../state/items/item.ts';
import { afterTick } from './explain-job.ts';

const uuid = (name: string): string => createHash('md5').update(name).digest('hex');

function jobOf(name: string, seq: number, key = 'acme'): Candidate {
  return {
    id: uuid(name),
    queue: 'mail',
    key,
    task: 't',
    version: 1,
    priority: 0,
    seq,
    createdMs: 0,
    expiresMs: null,
    attributes: {},
    tries: 0,
  };
}

function itemOf(job: Candidate, bundle: string | null = null): InFlight {
  return { ...job, pool: 'default', state: 'ready', node: null, dispatchedMs: 1, bundle };
}

function laneOf(key: string, ...jobs: readonly Candidate[]): Lane {
  return { queue: 'mail', key, jobs, more: true, retryDueMs: null, fresh: false };
}

const writtenOf = (...jobs: readonly InFlight[]): Pick<Flying, 'jobs'> => ({ jobs: () => jobs });

function snapshotOf(lanes: readonly Lane[], inFlight: readonly InFlight[] = []): Snapshot {
  const groups = [{ tasks: { t: { min: 1, max: 1 } }, slots: 2, depth: 2 }];
  return {
    nowMs: 1,
    lanes,
    inFlight,
    settled: [],
    queues: { mail: defaultQueue },
    pools: { default: { groups, ready: [] } },
    health: null,
    prepared: {},
    batchMax: 10,
  };
}

describe('what a tick left', () => {
  const [a, b, c] = [jobOf('a', 1), jobOf('b', 2), jobOf('c', 3)];

  test('what it wrote waits no more: it is in flight, and ready', () => {
    const left = {
      snapshot: snapshotOf([laneOf('acme', a, b)]),
      dispatched: writtenOf(itemOf(a)),
      settled: [],
    };
    const { snapshot, laneOf: lane } = afterTick(left, {
      job: b,
      firstId: b.id,
      retryDueMs: 7,
      legible: true,
    });
    expect(lane).toEqual({ ...laneOf('acme', b), retryDueMs: 7, fresh: true });
    expect(snapshot.lanes).toEqual([lane]);
    expect(snapshot.inFlight).toEqual([itemOf(a)]);
    expect(snapshot.pools['default']?.ready).toEqual([{ task: 't', version: 1, count: 1 }]);
  });

  test('jobs that one handler call takes together take one place', () => {
    const dispatched = writtenOf(itemOf(a, a.id), itemOf(b, a.id));
    const { snapshot } = afterTick({ snapshot: snapshotOf([]), dispatched, settled: [] }, undefined);
    expect(snapshot.pools['default']?.ready).toHaveLength(1);
    expect(snapshot.inFlight).toHaveLength(2);
  });

  test('a job that lies behind the first few is in its lane, at its place', () => {
    const left = {
      snapshot: snapshotOf([laneOf('globex'), laneOf('acme', a, b)]),
      dispatched: writtenOf(),
      settled: [],
    };
    const { snapshot, laneOf: lane } = afterTick(left, {
      job: c,
      firstId: a.id,
      retryDueMs: null,
      legible: true,
    });
    expect(lane?.jobs).toEqual([a, b, c]);
    expect(snapshot.lanes).toHaveLength(2);
    const between = { snapshot: snapshotOf([laneOf('acme', a, c)]), dispatched: writtenOf(), settled: [] };
    expect(
      afterTick(between, { job: b, firstId: a.id, retryDueMs: null, legible: true }).laneOf?.jobs,
    ).toEqual([a, b, c]);
  });

  test('the first job of a key that was left out is the first of its lane, and goes before the others', () => {
    const left = {
      snapshot: snapshotOf([{ ...laneOf('acme', b), skipped: true }]),
      dispatched: writtenOf(),
      settled: [],
    };
    const asked = (job: Candidate): Lane | undefined =>
      afterTick(left, { job, firstId: a.id, retryDueMs: null, legible: true }).laneOf;
    expect(asked(a)).toMatchObject({ jobs: [a, b], skipped: false });
    for (const behind of [b, c, { ...c, priority: -1 }]) {
      const lane = asked(behind);
      expect(lane?.jobs[0]?.id).toBe(a.id);
      expect(lane?.jobs.slice(1)).toEqual([...new Set([b, behind])].toSorted(compareInKey));
      expect(lane?.skipped).toBe(false);
    }
  });

  test('in a lane that is not known, something stands where its first job is', () => {
    const left = { snapshot: snapshotOf([]), dispatched: writtenOf(), settled: [] };
    const behind = afterTick(left, { job: c, firstId: a.id, retryDueMs: null, legible: true }).laneOf;
    expect(behind?.jobs.map(({ id }) => id)).toEqual([a.id, c.id]);
    const first = afterTick(left, { job: c, firstId: c.id, retryDueMs: null, legible: true });
    expect(first.laneOf?.jobs).toEqual([c]);
    expect(first.snapshot.lanes).toEqual([first.laneOf]);
  });

  test('ended attempts that the policy has counted do not come twice', () => {
    const ended = { job: a, outcome: 'done', busyMs: 1, endedMs: 1 } as const;
    const snapshot = { ...snapshotOf([]), settled: [ended] };
    expect(afterTick({ snapshot, dispatched: writtenOf(), settled: [] }, undefined).snapshot.settled).toEqual(
      [],
    );
  });
});
