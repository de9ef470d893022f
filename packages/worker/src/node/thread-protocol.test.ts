import { expect, test } from 'vitest';
import { receivedError, sentError, SharedMarks } from './thread-protocol.ts';

test('marks are seen through the same memory, and have an age', () => {
  const mine = new SharedMarks();
  const theirs = new SharedMarks(mine.buffer);
  expect(theirs.ageMs('beat')).toBe(Infinity);
  mine.stamp('beat');
  expect(theirs.ageMs('beat')).toBeLessThan(Infinity);
  expect(theirs.ageMs('main')).toBe(Infinity);
});

test('who runs is seen, and before them who is being called; long lists and names are cut, and break nothing', () => {
  const mine = new SharedMarks();
  const theirs = new SharedMarks(mine.buffer);
  const jobs = [
    { job: '1', task: 'a task' },
    { job: '2', task: 'Grüße 👋' },
  ];
  mine.running = jobs;
  expect(theirs.running).toEqual(jobs);
  mine.calling('3', 'c');
  expect(theirs.running).toEqual([{ job: '3', task: 'c' }]);
  mine.called();
  expect(theirs.running).toEqual(jobs);
  mine.calling('4', 'é'.repeat(1_000));
  expect(theirs.running[0]?.job).toBe('4');
  expect(theirs.running[0]?.task).toMatch(/^é{200,}$/);
  mine.called();
  mine.running = Array.from({ length: 1_000 }, (_, n) => ({ job: `job-${n}`, task: 'x'.repeat(100) }));
  expect(theirs.running.length).toBeGreaterThan(50);
  expect(theirs.running[0]).toEqual({ job: 'job-0', task: 'x'.repeat(100) });
});

test('an error that goes to the other thread keeps the code by which failures are told apart', () => {
  const error = Object.assign(new Error('no'), { code: '57P03' });
  expect(receivedError(structuredClone(sentError(error)))).toMatchObject({ message: 'no', code: '57P03' });
  expect(receivedError(structuredClone(sentError('text')))).toEqual(new Error('text'));
});
