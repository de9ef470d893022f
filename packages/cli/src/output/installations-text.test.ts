import type { InstallationStatus, LimitPart, LimitStatus, RouterStatus } from '@pgqueue/router';
import type { Status } from '@pgqueue/postgres';
import { expect, test } from 'vitest';
import { lengthOf, wrapped } from './fit.ts';
import { routerStatusText } from './installations-text.ts';

const totals: Status['totals'] = {
  delayed: 12,
  pending: 1_234_567,
  ready: 1_000,
  running: 12_345,
  dead: 98_765,
  exact: false,
  oldestMs: 86_399_000,
  claimAgeMs: null,
  retryRate: null,
  donePerSecond: 12_345.6,
};
const nodes = { alive: 9, draining: 0, lost: 0, left: 0, slots: 10_000, slotsInUse: 10_000, leases: 10_000 };
const message =
  'no live node can run task "send-newsletter" version 3 of pool "mailing-customers": start a worker that has it';

/** Status of an installation whose name has 63 characters. */
function one(number: number, error: string | null = null): InstallationStatus {
  const status = { totals, nodes, warnings: [{ kind: 'no_capable_node', message }] } as unknown as Status;
  return {
    installation: `production-eu-central-of-the-larger-customers-${number}`.padEnd(63, 'x'),
    number,
    state: number === 2 ? 'draining' : 'active',
    status: error === null ? status : null,
    error,
  };
}

const part = (number: number): LimitPart => ({
  installation: one(number).installation,
  number,
  part: 12,
  perSecond: null,
  reserved: 12,
  inFlight: 7,
  silentMs: 0,
  told: { size: 50, perSecond: null },
});
const limit: LimitStatus = {
  name: 'calls-to-the-vendor-whose-contract-allows-fifty-at-a-time',
  home: one(1).installation,
  kind: 'concurrency',
  size: 50,
  perSecond: null,
  parts: [1, 2, 1_000].map(part),
};

test('three installations with long names, one of them down, fit into 80 columns', () => {
  const long = `installation ${one(1_000).installation} (number 1000): connect ECONNREFUSED 10.20.30.40:5432`;
  const status: RouterStatus = {
    installations: [one(1), one(2), one(1_000, long)],
    totals,
    nodes,
    limits: [limit],
  };
  const lines = routerStatusText(status).split('\n');
  expect(lines.filter((line) => lengthOf(line) > 80)).toEqual([]);
  expect(lines[0]).toMatch(/^INSTA\S* +NO +STATE +WAITING +READY +RUNNING +DEAD +OLDEST +DONE\/S +SLOTS$/);
  expect(lines[1]).toMatch(
    /^produ\S*… +1 +active +~1\.23M +1000 +12\.3K +~98\.8K +23h 59m +12\.3K +10K\/10K$/,
  );
  expect(lines[2]).toMatch(/… +2 +drains /);
  expect(lines[3]).toMatch(/… +1000 +down +- +-/);
  expect(lines[4]).toMatch(/^all +2 of 3 +~1\.23M/);
  const rest = lines.slice(5).join('\n');
  // nothing of a message is lost
  expect(rest.replaceAll(/\s+/g, '')).toContain(long.replaceAll(/\s+/g, ''));
  expect(rest.match(/^WARN {2}production-eu-central/gm)).toHaveLength(2);
  expect(rest.match(/^ {6}\S/gm)?.length).toBeGreaterThan(2);
});

test('lines break between words, and long words anywhere', () => {
  expect(wrapped('- ', 'one two three', 9)).toEqual(['- one two', '  three']);
  expect(wrapped('- ', 'abcdefghij k', 6)).toEqual(['- abcd', '  efgh', '  ij k']);
  expect(wrapped('- ', '日本語', 6)).toEqual(['- 日本', '  語']);
  expect(wrapped('- ', '', 6)).toEqual(['- ']);
});
