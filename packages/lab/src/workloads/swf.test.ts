import { describe, expect, test } from 'vitest';
import { parseSwf } from './swf.ts';

interface Fields {
  readonly job?: number;
  readonly submit?: number | string;
  readonly run?: number | string;
  readonly allocated?: number;
  readonly requested?: number;
  readonly status?: number;
  readonly user?: number;
  readonly group?: number;
  readonly queue?: number;
}

function line(fields: Fields = {}): string {
  const {
    job = 1,
    submit = 0,
    run = 60,
    allocated = 4,
    requested = 8,
    status = 1,
    user = 3,
    group = 2,
    queue = 1,
  } = fields;
  return [
    job,
    submit,
    5,
    run,
    allocated,
    -1,
    -1,
    requested,
    3_600,
    -1,
    status,
    user,
    group,
    7,
    queue,
    1,
    -1,
    -1,
  ].join(' ');
}

describe('the Standard Workload Format', () => {
  test('gives jobs by user and queue, with what else is known as attributes', () => {
    const { arrivals, header, skipped } = parseSwf(
      `; Computer: a cluster\n;   MaxProcs: 128\n; Queue: 1 short\n; free text\n\n${line()}\n${line({ job: 2, submit: 7.5, run: 0, queue: 9 })}\n`,
    );
    expect(header).toMatchObject({ Computer: 'a cluster', MaxProcs: '128' });
    expect(skipped).toEqual({ unknownTimes: 0, cancelled: 0, parts: 0 });
    expect(arrivals).toEqual([
      {
        atMs: 0,
        durationMs: 60_000,
        id: 'swf-1',
        key: 'user-3',
        queue: 'short',
        attributes: { processors: 4, requestedMs: 3_600_000, user: 3, group: 2, executable: 7, partition: 1 },
      },
      expect.objectContaining({ id: 'swf-2', atMs: 7_500, durationMs: 0, queue: 'queue-9' }),
    ]);
  });

  test('has -1 for what is not known', () => {
    const text = [
      line({ user: -1, queue: -1, allocated: -1 }),
      line({ job: 2, allocated: -1, requested: -1 }),
    ].join('\n');
    const [first, second] = parseSwf(text).arrivals;
    expect(first).toMatchObject({ key: '', attributes: { processors: 8 } });
    expect(first).not.toHaveProperty('queue');
    expect(second?.attributes).not.toHaveProperty('processors');
  });

  test('takes other keys, one queue, and the time at which the log began', () => {
    const text = `; UnixStartTime: 1000000\n${line({ submit: 5 })}`;
    expect(parseSwf(text, { key: 'group', queues: 'one' }).arrivals[0]).toMatchObject({
      key: 'group-2',
      atMs: 1_000_005_000,
    });
    expect(parseSwf(text, { key: 'group', queues: 'one' }).arrivals[0]).not.toHaveProperty('queue');
    expect(parseSwf(text, { clock: 'zero' }).arrivals[0]).toMatchObject({ atMs: 5_000 });
  });

  test('leaves out what never ran, and the parts of checkpointed jobs, and counts them', () => {
    const text = [
      line({ job: 1, submit: 30 }),
      line({ job: 2, run: -1 }),
      line({ job: 3, submit: -1 }),
      line({ job: 4, status: 5, run: 0 }),
      line({ job: 5, status: 5, run: 20, submit: 10 }),
      line({ job: 1, status: 2 }),
      line({ job: 1, status: 3 }),
    ].join('\n');
    const { arrivals, skipped } = parseSwf(text);
    expect(arrivals.map(({ id }) => id)).toEqual(['swf-5', 'swf-1']);
    expect(skipped).toEqual({ unknownTimes: 2, cancelled: 1, parts: 2 });
  });

  test('may have a byte order mark, CRLF, tabs, and no end of its last line', () => {
    expect(
      parseSwf(`\uFEFF; Version: 2\r\n  ${line().replaceAll(' ', '\t')}\r\n${line({ job: 2 })}`).arrivals,
    ).toHaveLength(2);
    expect(parseSwf('').arrivals).toEqual([]);
    expect(parseSwf('; only comments').arrivals).toEqual([]);
  });

  test('names the first few lines that are wrong, and what is wrong with them', () => {
    const text = [
      '; Version: 2',
      line(),
      '1 2 3',
      line({ run: 'soon' }),
      line({ submit: -2 }),
      line({ run: '1e999' }),
      'x',
      'y',
    ].join('\n');
    expect(() => parseSwf(text)).toThrow(
      'this is no Standard Workload Format: line 3: 3 fields, where 18 are expected; ' +
        'line 4: field 4 (run time) is no number: "soon"; ' +
        'line 5: field 2 (submit time) is -2; below 0 there is only -1, for unknown; ' +
        'line 6: field 4 (run time) is no number: "1e999"; line 7: 1 fields, where 18 are expected',
    );
  });

  test('has names that mean nothing to JavaScript', () => {
    const { header } = parseSwf('; constructor: a\n; __proto__: b\n');
    expect(header['constructor']).toBe('a');
    expect(Object.getPrototypeOf(header)).toBe(Object.prototype);
  });
});
