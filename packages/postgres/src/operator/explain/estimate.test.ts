import { neverMs } from '@pgqueue/core';
import { describe, expect, test } from 'vitest';
import type { Waiting } from './estimate.ts';
import { estimateStart } from './estimate.ts';

const nowMs = Date.parse('2026-01-01T00:00:00Z');
const base: Waiting = {
  nowMs,
  key: 'acme',
  queue: 'mail',
  holds: [],
  ahead: 12,
  aheadInOrder: 40,
  flow: { windowMs: 30_000, key: 93, queue: 300, all: 600 },
};

function inMs(waiting: Partial<Waiting>): number | null {
  const { at } = estimateStart({ ...base, ...waiting });
  return at === null ? null : Math.round(at.getTime() - nowMs);
}

describe('estimateStart', () => {
  test('by the pace of the key, whatever the order says of others', () => {
    expect(inMs({})).toBe(Math.round((13 * 30_000) / 93));
    expect(estimateStart(base).evidence).toEqual([
      'key "acme" got 3.1 jobs/s over the last 30 s, 12 jobs come first',
    ]);
    expect(estimateStart({ ...base, key: '', ahead: 1 }).evidence).toEqual([
      'the empty key of queue mail got 3.1 jobs/s over the last 30 s, 1 job comes first',
    ]);
  });

  test('by the pace of all keys where its own had nothing, if no rule is in the way', () => {
    const flow = { ...base.flow, key: 0 };
    expect(inMs({ flow })).toBe((41 * 30_000) / 600);
    expect(inMs({ flow: { ...flow, key: null } })).toBe((41 * 30_000) / 600);
    expect(inMs({ flow, aheadInOrder: null })).toBeNull();
    expect(inMs({ flow, holds: [{ gate: 'custom', message: 'no', untilMs: null }] })).toBeNull();
    expect(inMs({ flow: { ...flow, all: 0 } })).toBeNull();
    expect(inMs({ flow: { ...flow, windowMs: 0 } })).toBeNull();
  });

  test('no earlier than a rule says', () => {
    const rate = { gate: 'rate', message: 'no token', untilMs: nowMs + 60_000 };
    expect(inMs({ holds: [rate], ahead: 0 })).toBe(60_000);
    expect(estimateStart({ ...base, holds: [rate], ahead: 0 }).evidence[0]).toBe(
      'a rule holds it until 2026-01-01T00:01:00.000Z',
    );
    expect(inMs({ holds: [{ ...rate, untilMs: nowMs + 1 }] })).toBe(Math.round((13 * 30_000) / 93));
  });

  test('none behind others of its key whose rule says a later time than their pace: that is a bound', () => {
    const rate = { gate: 'rate', message: 'no token', untilMs: nowMs + 60_000 };
    expect(inMs({ holds: [rate], aheadInOrder: 0 })).toBe(60_000);
    expect(estimateStart({ ...base, holds: [rate] })).toEqual({
      at: null,
      blocked: false,
      evidence: [
        'not before 2026-01-01T00:01:00.000Z, when a rule may change, and others come first',
        'key "acme" got 3.1 jobs/s over the last 30 s, 12 jobs come first',
      ],
    });
  });

  test('none by a single dispatch, which is no pace', () => {
    const flow = { windowMs: 3_000, key: 1, queue: 1, all: 1 };
    const limit = { gate: 'key_concurrency', message: '1 of 1 in flight', untilMs: null, paced: true };
    expect(estimateStart({ ...base, flow, holds: [limit], ahead: 0, aheadInOrder: 0 })).toEqual({
      at: null,
      blocked: false,
      evidence: ['only one job of its key was dispatched in the last 3 s'],
    });
    expect(inMs({ flow })).toBeNull();
    expect(inMs({ flow: { ...flow, all: 30 } })).toBe((41 * 3_000) / 30);
  });

  test('none while a rule holds it that says no time, unless that lets jobs go as others end', () => {
    const outage = { gate: 'outage', message: 'region us has an outage', untilMs: null };
    const limit = { gate: 'limit', message: 'key acme has 5 of 5', untilMs: null, paced: true };
    const rate = { gate: 'rate', message: 'no token', untilMs: nowMs + 60_000 };
    expect(inMs({ holds: [limit] })).toBe(Math.round((13 * 30_000) / 93));
    expect(estimateStart({ ...base, holds: [rate, outage, limit], ahead: 0 })).toEqual({
      at: null,
      blocked: false,
      evidence: ['nobody knows when this ends: region us has an outage'],
    });
  });

  test('none while something lasts that no time ends', () => {
    const holds = [{ gate: 'paused_queue', message: 'queue mail is paused', untilMs: null }];
    expect(estimateStart({ ...base, holds })).toEqual({
      at: null,
      blocked: true,
      evidence: ['queue mail is paused'],
    });
  });

  test('none where a rule never lets it go, however fast its key was until now', () => {
    const never = { gate: 'queue_concurrency', message: 'queue mail has 0 of 0 in flight', untilMs: neverMs };
    const rate = { gate: 'rate', message: 'no token', untilMs: nowMs + 60_000 };
    expect(estimateStart({ ...base, holds: [rate, never] })).toEqual({
      at: null,
      blocked: true,
      evidence: ['queue mail has 0 of 0 in flight'],
    });
  });

  test('what is next starts when its rule ends; behind others a rule alone is no estimate', () => {
    const flow = { ...base.flow, key: 0, all: 0 };
    const holds = [{ gate: 'window', message: 'closed', untilMs: nowMs + 5_000 }];
    expect(inMs({ flow, holds, ahead: 0, aheadInOrder: 0 })).toBe(5_000);
    expect(inMs({ flow, ahead: 0, aheadInOrder: 0 })).toBe(0);
    expect(inMs({ flow, holds, ahead: 1, aheadInOrder: 1 })).toBeNull();
    expect(inMs({ flow, ahead: 0, aheadInOrder: null })).toBeNull();
  });
});
