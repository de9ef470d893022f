import { expect, test } from 'vitest';
import { checkInstallations, installationsProblems } from './installations.ts';

const one = { number: 1, name: 'one', connectionString: 'postgres://localhost/one' };
const two = { number: 2, name: 'two', connectionString: 'postgres://localhost/two', schema: 'jobs' };

test('installations come in the order of their numbers', () => {
  expect(checkInstallations([two, one])).toEqual([one, two]);
});

test.each([
  [undefined, 'installations must be given: a list'],
  [[], 'there must be 1 to 1024 installations, not 0'],
  [[{ ...one, number: 1024 }], 'number'],
  [[{ ...one, name: 'One' }], 'name'],
  [[{ ...one, connectionString: 'nowhere' }], 'connectionString'],
  [[{ ...one, state: 'gone' }], 'state'],
  [[{ ...one, url: 'x' }], 'url'],
  [[one, { ...two, number: 1 }], 'two installations have the number 1'],
  [[one, { ...two, name: 'one' }], 'two installations have the name "one"'],
  [[{ ...one, state: 'draining' }], 'all installations are draining'],
])('%j: %s', (given, told) => {
  expect(installationsProblems(given).join('; ')).toContain(told);
  expect(() => checkInstallations(given)).toThrow(expect.objectContaining({ code: 'configuration' }));
});

test('all problems are told at once, and no connection string', () => {
  const secret = { ...one, connectionString: 'postgres://user:hunter2@localhost/one' };
  const problems = installationsProblems([secret, { ...secret, state: 'draining' }]);
  expect(problems).toHaveLength(2);
  expect(problems.join()).not.toContain('hunter2');
});
