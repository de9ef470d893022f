import { expect, test } from 'vitest';
import { problemsOf } from './checker/check.ts';
import { good } from './checker/script.ts';
import { reportOf } from './report.ts';
import { resultsOf } from './results.ts';

test('the page of results tells what a run showed', () => {
  const script = good()
    .add(100, { type: 'fault', n: 1, kind: 'network-reset', phase: 'start' })
    .add(101, { type: 'fault', n: 1, kind: 'network-reset', phase: 'made' })
    .add(102, { type: 'fault', n: 1, kind: 'network-reset', phase: 'healed' })
    .enqueue(110, 'b')
    .claim(120, 'b', { token: 't9' })
    .settle(151, 'b', { token: 't9' })
    .final('b', 'done', { token: 't9' });
  const verdict = script.verdict();
  expect(problemsOf(verdict)).toEqual([]);
  const page = resultsOf(reportOf({ verdict, history: script.events, kinds: [], elapsedMs: 90_000 }));
  expect(page).toContain('Seed 7, 1.5 minutes');
  expect(page).toContain('| jobs acknowledged | 2 |');
  expect(page).toContain('| `network-reset` | 1 | 50 | 50 | 50 |  |  |');
});
