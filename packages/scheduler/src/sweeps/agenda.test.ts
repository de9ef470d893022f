import { expect, test } from 'vitest';
import { createAgenda } from './agenda.ts';

test('a sweep that was asked for while it ran is not put off by what it answers', () => {
  let now = 1_000;
  const agenda = createAgenda(() => now);
  agenda.set('sessions', 0);
  expect(agenda.due('sessions')).toBe(true);
  agenda.begin('sessions');
  expect(agenda.due('sessions')).toBe(false);
  now += 5;
  agenda.set('sessions', 0);
  now += 5;
  agenda.done('sessions', 10_000);
  expect(agenda.due('sessions')).toBe(true);
  agenda.begin('sessions');
  agenda.done('sessions', 10_000);
  expect(agenda.waitMs()).toBe(10_000);
});

test('an answer stands where nothing was asked for meanwhile, or only for later', () => {
  let now = 0;
  const agenda = createAgenda(() => now);
  agenda.begin('promote');
  agenda.set('promote', 500);
  agenda.done('promote', 100);
  expect(agenda.waitMs()).toBe(100);
  now = 100;
  agenda.begin('promote');
  agenda.done('promote', null);
  expect(agenda.due('promote')).toBe(false);
  agenda.begin('promote');
  agenda.done('promote', 0);
  expect(agenda.due('promote')).toBe(true);
});

test('a kind keeps its shortest interval, and the pause after a failure', () => {
  let now = 0;
  const agenda = createAgenda(() => now);
  agenda.begin('reap');
  agenda.done('reap', undefined);
  agenda.set('reap', 0);
  expect(agenda.waitMs()).toBe(1_000);
  now = 1_000;
  agenda.begin('reap');
  const retryMs = agenda.failed('reap');
  expect(retryMs).toBeGreaterThan(0);
  agenda.set('reap', 0);
  now += retryMs - 1;
  expect(agenda.due('reap')).toBe(false);
  now += 1;
  expect(agenda.due('reap')).toBe(true);
});
