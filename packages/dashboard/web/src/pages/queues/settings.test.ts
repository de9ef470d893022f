import { expect, test } from 'vitest';
import type { QueueSettings } from '../../../../src/contract.ts';
import type { Draft } from './settings.ts';
import { changesOf, draftOf } from './settings.ts';

const settings: QueueSettings = {
  paused: false,
  pool: 'default',
  retentionMs: 7 * 86_400_000,
  concurrency: 10,
  keyConcurrency: null,
  rate: { perSecond: 5, burst: 20 },
  keyRate: null,
  keyPending: null,
  weight: 1,
};

function changes(part: Partial<Draft>): unknown {
  const before = draftOf(settings);
  return changesOf(before, { ...before, ...part });
}

test('what was not touched is not sent', () => {
  expect(changes({})).toEqual({});
  expect(changes({ weight: 2 })).toEqual({ weight: 2 });
});

test('an emptied field is no limit; 0 is one', () => {
  expect(changes({ concurrency: '' })).toEqual({ concurrency: null });
  expect(changes({ concurrency: 0 })).toEqual({ concurrency: 0 });
  expect(changes({ pool: '' })).toEqual({ pool: null });
});

test('a rate goes with its burst', () => {
  expect(changes({ rate: 8 })).toEqual({ rate: { perSecond: 8, burst: 20 } });
  expect(changes({ rateBurst: '' })).toEqual({ rate: { perSecond: 5 } });
  expect(changes({ rate: '' })).toEqual({ rate: null });
  expect(changes({ keyRate: 3 })).toEqual({ keyRate: { perSecond: 3 } });
});

test('history is typed in days', () => {
  expect(changes({ retentionDays: 0.5 })).toEqual({ retentionMs: 43_200_000 });
  expect(changes({ retentionDays: '' })).toEqual({ retentionMs: null });
});
