import { describe, expect, test } from 'vitest';
import { createFlowMeter } from './throughput.ts';

const lane = (key: string, queue = 'mail'): { readonly queue: string; readonly key: string } => ({
  queue,
  key,
});

describe('flow meter', () => {
  test('counts by key, by queue and altogether, over half a minute at most', () => {
    let nowMs = 1_000;
    const meter = createFlowMeter(() => nowMs);
    meter.dispatched([lane('a'), lane('a'), lane('b'), lane('a', 'other')]);
    nowMs += 2_000;
    expect(meter.of(lane('a'))).toEqual({ windowMs: 2_000, key: 2, queue: 3, all: 4 });
    expect(meter.of(lane('c'))).toEqual({ windowMs: 2_000, key: 0, queue: 3, all: 4 });
    nowMs += 18_000;
    meter.dispatched([lane('a')]);
    expect(meter.of(lane('a'))).toEqual({ windowMs: 20_000, key: 3, queue: 4, all: 5 });
    nowMs += 14_900;
    // the first span counts in full until all of it has left the window
    expect(meter.of(lane('a'))).toEqual({ windowMs: 34_900, key: 3, queue: 4, all: 5 });
    nowMs += 100;
    expect(meter.of(lane('a'))).toEqual({ windowMs: 30_000, key: 1, queue: 1, all: 1 });
    nowMs += 60_000;
    expect(meter.of(lane('a'))).toEqual({ windowMs: 30_000, key: 0, queue: 0, all: 0 });
  });

  test('begins anew with a term', () => {
    let nowMs = 0;
    const meter = createFlowMeter(() => nowMs);
    meter.dispatched([lane('a')]);
    nowMs += 7_000;
    meter.reset();
    nowMs += 1;
    expect(meter.of(lane('a'))).toEqual({ windowMs: 1, key: 0, queue: 0, all: 0 });
  });

  test('its memory is bounded: beyond, it says that it does not know', () => {
    const meter = createFlowMeter(() => 0);
    meter.dispatched(Array.from({ length: 10_001 }, (_, n) => lane(String(n))));
    meter.dispatched([lane('0')]);
    expect(meter.of(lane('0'))).toMatchObject({ key: 2, all: 10_002 });
    expect(meter.of(lane('10000'))).toMatchObject({ key: null, queue: 10_002 });
  });
});
