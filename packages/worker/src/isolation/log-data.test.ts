import { expect, test } from 'vitest';
import { logData, logText } from './log-data.ts';

const crossed = (data: unknown): unknown => logData(logText(data));

test('errors stay errors, wherever they are: with their stacks, causes and plain members', () => {
  const cause = new RangeError('no funds');
  const failure = Object.assign(new TypeError('card declined', { cause }), { code: 'E_CARD', status: 402 });
  const { err, list } = crossed({ err: failure, list: [{ at: 1, failure }] }) as {
    readonly err: Error;
    readonly list: readonly [{ readonly failure: unknown }];
  };
  for (const error of [err, list[0].failure, crossed(failure)]) {
    expect(error).toBeInstanceOf(Error);
    expect(error).toMatchObject({ name: 'TypeError', message: 'card declined', stack: failure.stack });
    expect(Object.entries(error as object)).toEqual([
      ['code', 'E_CARD'],
      ['status', 402],
    ]);
    expect((error as Error).cause).toMatchObject({ name: 'RangeError', message: 'no funds' });
  }
});

test('what JSON cannot hold is written as far as it can be', () => {
  expect(crossed({ rows: 3n, all: 10n ** 20n })).toEqual({ rows: 3, all: '100000000000000000000' });
  const request: Record<string, unknown> = { url: '/x', at: new Date(0), call: () => {} };
  request['self'] = request;
  request['other'] = { request, list: [1, [2n]] };
  expect(crossed({ request })).toEqual({
    request: {
      url: '/x',
      at: '1970-01-01T00:00:00.000Z',
      self: '[Circular]',
      other: { request: '[Circular]', list: [1, [2]] },
    },
  });
  const shared = { a: 1 };
  expect(crossed({ one: shared, two: [shared] })).toEqual({ one: { a: 1 }, two: [{ a: 1 }] });
});

test('a graph with many cycles is cut off, and a member that throws leaves a note', () => {
  const nodes = Array.from({ length: 12 }, (_none, n) => ({ n, all: [] as unknown[] }));
  for (const node of nodes) node.all.push(...nodes);
  expect(logText({ nodes }).length).toBeLessThan(1_000_000);
  const broken = {
    get member(): never {
      throw new Error('no');
    },
  };
  expect(crossed({ broken })).toEqual({ unlogged: "a member of it can't be read" });
  expect(crossed(undefined)).toEqual({});
});
