import { expect, test } from 'vitest';
import { parseOptions } from './options.ts';

const known = {
  works: ['drain', 'idle'],
  longWorks: ['soak'],
  peers: ['pgqueue', 'table'],
  plans: ['short'],
};

test('without arguments, all peers drain', () => {
  expect(parseOptions([], known)).toMatchObject({
    works: ['drain'],
    peers: ['pgqueue', 'table'],
    jobs: 200_000,
    repeat: 3,
    processes: [1, 4],
    smoke: false,
  });
});

test('a smoke run is every work, small; what is given holds', () => {
  const options = parseOptions(['--smoke', '--jobs', '50'], known);
  expect(options).toMatchObject({ works: ['drain', 'idle'], jobs: 50, seconds: 1, repeat: 1, smoke: true });
});

test('peers can be named with a setting, long works only by name', () => {
  const options = parseOptions(
    ['--peers', 'pgqueue:default, table', '--work', 'soak', '--minutes', '0.5', '--sustained', '28000'],
    known,
  );
  expect(options).toMatchObject({
    peers: ['pgqueue:default', 'table'],
    works: ['soak'],
    minutes: 0.5,
    sustained: 28_000,
  });
});

test('everything that is wrong is said at once', () => {
  const args = ['--work', 'fly', '--peers', 'nobody', '--jobs', '0', '--processes', '1,x', '--minutes', '-1'];
  expect(() => parseOptions([...args.slice(0, -2), '--minutes=-1'], known)).toThrow(
    /fly.*\n.*nobody.*\n.*--jobs(?:.*\n)*.*"x"/,
  );
});

test('a plan says what is run: nothing else may say so too; what is resumed needs a file', () => {
  expect(parseOptions(['--plan', 'short', '--within', '20'], known)).toMatchObject({
    plan: 'short',
    withinMinutes: 20,
  });
  expect(() => parseOptions(['--plan', 'shrot', '--work', 'drain', '--resume'], known)).toThrow(
    /shrot.*short\n.*leave out.*\n.*--json/,
  );
});
