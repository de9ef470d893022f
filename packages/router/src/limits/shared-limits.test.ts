import { expect, test } from 'vitest';
import type { SharedLimitsOptions } from './shared-limits.ts';
import { sharedLimits } from './shared-limits.ts';

const installations = [1, 2].map((number) => ({
  number,
  name: `eu-${number}`,
  connectionString: 'postgres://localhost/app',
}));
const given = { installations, self: 'eu-1', home: 'eu-2', limits: { api: { concurrency: 50 } } };

test('each limit is a gate of its name, and nothing is opened', () => {
  const gates = sharedLimits({
    ...given,
    limits: { api: { concurrency: 50 }, texts: { rate: { perSecond: 0.5, burst: 4 }, home: 'eu-1' } },
  });
  expect(gates.map(({ name, onError }) => [name, onError])).toEqual([
    ['api', 'hold'],
    ['texts', 'hold'],
  ]);
});

test.each([
  [{ self: 'eu-3' }, 'self must be the name of an installation of the list: eu-1, eu-2'],
  [{ home: 'eu-3' }, 'home must be the name of an installation of the list: eu-1, eu-2'],
  [{ home: undefined }, 'limits["api"].home must be given, or home for all'],
  [{ limits: { api: { concurrency: 1, home: 'us' } } }, 'limits["api"].home must be the name'],
  [{ limits: { api: {} } }, 'limits["api"]: give concurrency or rate, one of them'],
  [{ limits: { api: { concurrency: 1, rate: { perSecond: 1, burst: 1 } } } }, 'give concurrency or rate'],
  [{ limits: { api: { concurrency: -1 } } }, 'concurrency'],
  [{ limits: { api: { concurrency: 1.5 } } }, 'concurrency'],
  [{ limits: { api: { concurrency: Number.NaN } } }, 'concurrency'],
  [{ limits: { api: { rate: { perSecond: -1, burst: 1 } } } }, 'perSecond'],
  [{ limits: { api: { rate: { perSecond: 1, burst: 0.5 } } } }, 'burst'],
  [{ limits: { api: { rate: { perSecond: 1 } } } }, 'burst'],
  [{ limits: { api: { concurrency: 1, when: true } } }, 'when'],
  [{ limits: { api: { concurency: 1 } } }, 'concurrency'],
  [{ limits: { '': { concurrency: 1 } } }, 'the name ""'],
  [{ limits: [] }, 'limits by name'],
  [{ installations: [installations[0], installations[0]] }, 'two installations have the number 1'],
])('%j is refused: %s', (other, told) => {
  const options = { ...given, ...other } as unknown as SharedLimitsOptions;
  expect(() => sharedLimits(options)).toThrow(
    expect.objectContaining({ code: 'configuration', message: expect.stringContaining(told) as string }),
  );
});
