import { expect, test } from 'vitest';
import type { Logger, PgQueueEvent } from './events.ts';
import { allObservers, countByTask, logObserver } from './events.ts';

function levelOf(event: PgQueueEvent): string {
  const said: string[] = [];
  const levels = ['debug', 'info', 'warn', 'error'] as const;
  const logger = Object.fromEntries(levels.map((level) => [level, () => said.push(level)]));
  logObserver(logger as unknown as Logger)(event);
  return said.join();
}

test('what ends in order is no warning, what is lost is one', () => {
  const lost = { type: 'leader.lost', scheduler: 's', epoch: 1 } as const;
  expect([levelOf(lost), levelOf({ ...lost, stopped: true })]).toEqual(['warn', 'info']);
  const settled = { type: 'job.settled', job: 'j', queue: 'q', task: 't', durationMs: 1 } as const;
  const verdicts = (['done', 'retry', 'dead'] as const).map((verdict) => levelOf({ ...settled, verdict }));
  expect(verdicts).toEqual(['debug', 'warn', 'error']);
});

test('an error goes where loggers look for it, and the rest beside it', () => {
  const lines: unknown[] = [];
  const logger = { warn: (...line: unknown[]) => lines.push(line) } as unknown as Logger;
  const error = Object.assign(new Error('away'), { code: '57P01', detail: 'a whole row' });
  logObserver(logger)({ type: 'database.error', during: 'tick', error });
  const err = {
    name: 'Error',
    message: 'away',
    code: '57P01',
    stack: expect.stringMatching(/^\s+at /) as unknown,
  };
  expect(lines).toEqual([[{ during: 'tick', err }, 'database.error']]);
});

test('an observer that fails, at once or later, keeps no event from the others, and nothing is left unhandled', async () => {
  const heard: unknown[] = [];
  const unhandled: unknown[] = [];
  const listen = (error: unknown): void => void unhandled.push(error);
  process.on('unhandledRejection', listen);
  const observe = allObservers(
    () => {
      throw new Error('at once');
    },
    (): unknown => Promise.reject(new Error('later')),
    undefined,
    ({ type }) => heard.push(type),
  );
  observe({ type: 'database.error', during: 'tick', error: new Error('away') });
  await new Promise((resolve) => setImmediate(resolve));
  process.off('unhandledRejection', listen);
  expect([heard, unhandled]).toEqual([['database.error'], []]);
});

test('jobs are counted by queue and task, in whatever order they come', () => {
  const of = (queue: string, ...tasks: readonly string[]) => tasks.map((task) => ({ queue, task }));
  expect(countByTask([...of('q', 't', 't', 'u', 't'), ...of('r', 't'), ...of('q', 't', 'u')])).toEqual([
    { queue: 'q', task: 't', jobs: 4 },
    { queue: 'q', task: 'u', jobs: 2 },
    { queue: 'r', task: 't', jobs: 1 },
  ]);
  expect(countByTask([])).toEqual([]);
});
