import { expect, test } from 'vitest';
import { useDatabase } from '../support/database.ts';
import { autoscaleRun } from './autoscale.ts';

const own = useDatabase();

test('workers are started and stopped by the number of wanted slots, and no job is lost', async () => {
  const report = await autoscaleRun({
    url: own.url,
    swings: 1,
    burst: 60,
    held: 30,
    jobMs: 100,
    slots: 2,
    min: 0,
    max: 2,
    everyMs: 200,
    downMs: 400,
  });
  expect(report).toMatchObject({ enqueued: 90, done: 90, lost: 0, most: 2, atEnd: 0 });
  // all but one of the jobs that wait are held by a limit, which more workers don't change
  expect(report.held.workers).toBe(1);
  expect(report.stopped).toBe(report.started);
});
