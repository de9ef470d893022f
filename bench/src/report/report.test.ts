import { describe, expect, test } from 'vitest';
import { htmlOf } from './html.ts';
import { markdownOf } from './markdown.ts';
import type { Report, Run } from './report.ts';
import { isMeasured, mergeReports } from './report.ts';
import { sectionsOf, spreadText } from './summary.ts';
import { textOf } from './text.ts';

const run = (
  peer: string,
  repetition: number,
  jobsPerSecond: number,
  faults: readonly string[] = [],
): Run => ({
  work: 'drain',
  case: '1 worker process',
  peer,
  setting: 'best',
  repetition,
  metrics: { jobsPerSecond, walBytes: NaN },
  series: { 'jobs/s': [jobsPerSecond, jobsPerSecond + 1] },
  faults,
  sizes: { jobs: 10, seconds: 1 },
  tookSeconds: 2,
});

const report: Report = {
  commands: ['npm run bench -- --work drain'],
  startedAt: '2026-11-21T20:00:00.000Z',
  commit: 'abc1234',
  machine: { cpu: 'a <fast> one', cores: 2, memoryGiB: 24, system: 'Linux', node: 'v24.0.0' },
  postgres: { version: '18.4', settings: { max_wal_size: '2GB' } },
  redis: undefined,
  contestants: [
    { peer: 'one', setting: 'best', version: '1.2.3', says: 'a | b' },
    { peer: 'two', setting: 'best', version: '', says: '' },
  ],
  runs: [
    run('one', 1, 1_000),
    run('two', 1, 5),
    run('one', 2, 3_000),
    run('one', 3, 2_000, ['1 runs too many']),
  ],
};

test('repetitions become medians and ranges', () => {
  const [section, ...others] = sectionsOf(report);
  expect(others).toEqual([]);
  expect(section?.rows.map(({ peer }) => peer)).toEqual(['one', 'two']);
  const [one, two] = section?.rows ?? [];
  expect(one?.metrics['jobsPerSecond']).toEqual({ median: 2_000, min: 1_000, max: 3_000, count: 3 });
  expect(one?.faults).toEqual(['#3: 1 runs too many']);
  expect(spreadText(one?.metrics['jobsPerSecond'], { title: '', digits: 0 })).toBe('2,000 (1,000–3,000)');
  expect(spreadText(two?.metrics['jobsPerSecond'], { title: '', digits: 1 })).toBe('5.0');
  expect(spreadText(two?.metrics['walBytes'], { title: '', digits: 0 })).toBe('–');
});

test('the text for a terminal has every figure, and every fault', () => {
  const text = textOf(report);
  expect(text).toContain('2,000 (1,000–3,000)');
  expect(text).toContain('one, best #3: 1 runs too many');
});

test('the page is whole, escaped, and fetches nothing', () => {
  const html = htmlOf(report);
  expect(html).toContain('a &lt;fast&gt; one');
  expect(html).toContain('one, best, #3: 1 runs too many');
  expect(html.match(/<svg/g)).toHaveLength(2);
  expect(html).not.toMatch(/<script|<link|url\((?!#)|src=|href=/);
});

test('the page for the documentation says what it was made with', () => {
  const markdown = markdownOf(report);
  expect(markdown).toContain('`npm run bench -- --work drain`, 2026-11-21, commit abc1234:');
  expect(markdown).toContain('--jobs 10; 1 to 3 repetitions.');
  expect(markdown).toContain('| one, best | 1.2.3 | a \\| b |');
  expect(markdown).toContain('| two, best | 5 | – |');
});

describe('reports of several runs', () => {
  const later: Report = {
    ...report,
    commands: ['npm run bench -- --work idle'],
    commit: 'def5678',
    contestants: [{ peer: 'three', setting: 'best', version: '3', says: '' }],
    runs: [run('one', 1, 7), run('three', 1, 8)],
  };

  test('become one: of what both measured, the later one counts', () => {
    const merged = mergeReports([report, later]);
    expect(merged.runs.map(({ peer, metrics }) => [peer, metrics['jobsPerSecond']])).toEqual([
      ['two', 5],
      ['one', 7],
      ['three', 8],
    ]);
    expect(merged).toMatchObject({
      commands: ['npm run bench -- --work drain', 'npm run bench -- --work idle'],
      commit: 'abc1234, def5678',
    });
    expect(merged.contestants.map(({ peer }) => peer)).toEqual(['one', 'two', 'three']);
  });

  test('of two machines, or of two versions, are refused', () => {
    const elsewhere = { ...later, machine: { ...later.machine, cores: 64 } };
    expect(() => mergeReports([report, elsewhere])).toThrow(/machine: .*"cores":2.*"cores":64/);
    const newer = {
      ...later,
      contestants: [{ peer: 'one', setting: 'best', version: '2.0.0', says: 'a | b' }],
    };
    expect(() => mergeReports([report, newer])).toThrow(/one, best: .*1\.2\.3.*2\.0\.0/);
  });

  test('what is measured is not measured again, and never with another size', () => {
    const name = { work: 'drain', case: '1 worker process', peer: 'two', setting: 'best' };
    const sizes = { jobs: 10, seconds: 1 };
    expect(isMeasured(report, { ...name, repetition: 1 }, sizes)).toBe(true);
    expect(isMeasured(report, { ...name, repetition: 2 }, sizes)).toBe(false);
    expect(() => isMeasured(report, { ...name, repetition: 2 }, { ...sizes, jobs: 20 })).toThrow(
      /was measured with --jobs 10 --seconds 1, not --jobs 20/,
    );
  });
});
