import { describe, expect, test } from 'vitest';
import { check, lineOf, problemsOf } from './check.ts';
import type { HistoryEntry } from './history.ts';
import { good, Script } from './script.ts';

describe('a good run', () => {
  test('has no violation', () => {
    const verdict = good().verdict();
    expect(problemsOf(verdict)).toEqual([]);
    expect(verdict.total.acknowledged).toBe(1);
    expect(lineOf(verdict)).toContain('seed 7 · 0 faults () · 1 jobs · lost 0');
  });

  test('proves nothing of stale settlements where none was tried', () => {
    expect(problemsOf(good().verdict(), { staleMin: 1 })).toEqual([expect.stringContaining('too few')]);
  });

  test('needs its facts', () => {
    expect(() => check([])).toThrow('no line of type run');
  });
});

describe('what went in comes out', () => {
  test('an acknowledged job that is nowhere is lost; one of unknown outcome may be', () => {
    expect(good().enqueue(50, 'b').violated()).toEqual(['lost']);
    expect(good().enqueue(50, 'b', 'unknown').violated()).toEqual([]);
    expect(good().enqueue(50, 'b', 'unknown').final('b', 'done').violated()).toEqual([]);
  });

  test('a job of a rolled back transaction, or of nobody, is unexpected', () => {
    expect(good().enqueue(50, 'b', 'fail').final('b', 'done').violated()).toEqual(['unexpected']);
    expect(good().final('x', 'done').violated()).toEqual(['unexpected']);
    expect(good().enqueue(50, 'b', 'fail').violated()).toEqual([]);
  });

  test('two ends, no end, and another end than the one that was accepted', () => {
    expect(good().final('a', 'dead').violated()).toEqual(['twice']);
    expect(good().enqueue(50, 'b').final('b', 'open').violated()).toEqual(['open']);
    const other = new Script()
      .enqueue(10, 'a')
      .claim(20, 'a', { token: 't1' })
      .settle(40, 'a', { token: 't1' });
    expect(other.final('a', 'dead').violated()).toEqual(['contradicted']);
  });

  test.each([
    ['done', 1, []],
    ['done', 0, ['effects']],
    ['done', 2, ['effects']],
    ['dead', 1, ['effects']],
    ['dead', 0, []],
  ] as const)('the effect of a job that is %s happened %i times', (state, witnesses, violated) => {
    const script = new Script().enqueue(10, 'a').final('a', state, { task: 'effect', witnesses });
    expect(script.violated()).toEqual(violated);
  });
});

describe('settlements', () => {
  const stolen = (): Script =>
    new Script()
      .enqueue(10, 'a')
      .claim(100, 'a', { token: 't1', leaseMs: 500 })
      .claim(700, 'a', { token: 't2', node: 'n2' });

  test('a stale one is refused', () => {
    const script = stolen()
      .settle(800, 'a', { token: 't1', verdict: null })
      .settle(900, 'a', { token: 't2' })
      .final('a', 'done', { token: 't2' });
    expect(script.violated()).toEqual([]);
    expect(script.verdict().settles.staleRefused).toBe(1);
  });

  test('a stale one that is accepted is caught', () => {
    const script = stolen().settle(800, 'a', { token: 't1' }).final('a', 'done', { token: 't1' });
    expect(script.violated()).toEqual(['accepted_not_newest']);
  });

  test('one that began before the other claim ended proves nothing', () => {
    const script = stolen().settle(700.5, 'a', { token: 't1' }).final('a', 'done', { token: 't1' });
    expect(script.violated()).toEqual([]);
  });

  test('two that are accepted are caught, a repeated one is not', () => {
    const twice = good().settle(50, 'a', { token: 't1' });
    expect(twice.violated()).toEqual(['accepted_twice']);
    const repeated = new Script()
      .enqueue(10, 'a')
      .claim(20, 'a', { token: 't1' })
      .settle(40, 'a', { token: 't1', verdict: 'lost' })
      .settle(50, 'a', { token: 't1', verdict: 'repeated' })
      .final('a', 'done');
    expect(repeated.violated()).toEqual([]);
  });
});

describe('work items', () => {
  let position = 0;
  const item = (id: string, more: Partial<Extract<HistoryEntry, { type: 'item' }>>): HistoryEntry => ({
    type: 'item',
    id,
    position: (position += 1),
    queue: 'q',
    key: 'k',
    group: 'g',
    seq: position,
    tries: 0,
    from: 1,
    to: null,
    dispatchedMs: 1_000,
    ...more,
  });

  test('more at once than the limit', () => {
    const script = (to: number): Script =>
      new Script({ groupMax: 1 }).add(9, item('a', { from: 1, to })).add(9, item('b', { from: 5, to: 9 }));
    expect(script(4).violated()).toEqual([]);
    expect(script(6).violated()).toEqual(['limit_exceeded']);
  });

  test('two of one job at once', () => {
    const script = new Script().add(9, item('a', { from: 1, to: 6 })).add(9, item('a', { from: 5, to: 9 }));
    expect(script.violated()).toEqual(['items_overlap']);
  });

  test('an ordered key: one at a time, in order', () => {
    const script = (first: number, second: number, to: number): Script =>
      new Script({ orderedQueues: ['q'] })
        .enqueue(10, 'a')
        .enqueue(11, 'b')
        .add(9, item('a', { seq: first, from: 1, to, dispatchedMs: 1_000 }))
        .add(9, item('b', { seq: second, from: 5, to: 9, dispatchedMs: 1_100 }))
        .final('a', 'done')
        .final('b', 'done');
    expect(script(1, 2, 4).violated()).toEqual([]);
    expect(script(1, 2, 6).violated()).toEqual(['limit_exceeded']);
    expect(script(2, 1, 4).violated()).toEqual(['out_of_order']);
  });

  test('a plan need not know of jobs that were enqueued after it had read', () => {
    const script = (readAt: number): Script =>
      new Script({ orderedQueues: ['q'] })
        .enqueue(1_000, 'b')
        .enqueue(3_000, 'a')
        .add(9_000, { type: 'dispatch', ids: ['other', 'b'], readAt })
        .add(9_500, item('b', { seq: 2, from: 1, to: 4, dispatchedMs: 9_010 }))
        .add(9_500, item('a', { seq: 1, from: 5, to: 9, dispatchedMs: 9_800 }))
        .final('a', 'done')
        .final('b', 'done');
    expect(script(2_900).violated()).toEqual([]);
    expect(script(8_000).violated()).toEqual(['out_of_order']);
  });

  test('faster than the rate, but not over a clock that was set back', () => {
    const rate = { queue: 'q', perSecond: 10, burst: 1 };
    const script = (second: number): Script =>
      new Script({ rate })
        .add(9, item('a', { to: 2, dispatchedMs: 10_000 }))
        .add(9, item('b', { from: 3, dispatchedMs: second }));
    expect(script(10_100).violated()).toEqual([]);
    expect(script(10_050).violated()).toEqual(['limit_exceeded']);
    expect(script(5_000).violated()).toEqual([]);
  });
});

test('a broken snapshot is a violation', () => {
  expect(good().add(50, { type: 'snapshot', broken: [] }).violated()).toEqual([]);
  expect(
    good()
      .add(50, { type: 'snapshot', broken: ['orphan_items'] })
      .violated(),
  ).toEqual(['invariant_broken']);
});

test('a process that ended by itself is a violation', () => {
  const died = good().add(50, { type: 'down', node: 'scheduler', why: 'exit 1', expected: false });
  expect(died.violated()).toEqual(['process_died']);
});

test('recovery is told by kind', () => {
  const script = new Script()
    .enqueue(1, 'a')
    .claim(10, 'a', { token: 't1', leaseMs: 9_000 })
    .add(100, { type: 'fault', n: 1, kind: 'worker-kill', phase: 'start', target: 'n1' })
    .add(100, { type: 'down', node: 'n1', why: 'SIGKILL', expected: true })
    .add(101, { type: 'fault', n: 1, kind: 'worker-kill', phase: 'made', target: 'n1' })
    .add(200, { type: 'fault', n: 1, kind: 'worker-kill', phase: 'healed', target: 'n1' })
    .add(210, { type: 'fault', n: 2, kind: 'worker-kill', phase: 'start' })
    .add(211, { type: 'fault', n: 2, kind: 'worker-kill', phase: 'failed' })
    .claim(300, 'a', { token: 't2', node: 'n2' })
    .settle(349, 'a', { token: 't2' })
    .final('a', 'done', { token: 't2' });
  const [kill, ...others] = script.verdict().recoveries;
  expect(others).toEqual([]);
  expect(kill).toMatchObject({ kind: 'worker-kill', made: 1, never: 0 });
  expect(kill?.goesOn.max).toBe(150);
  expect(kill?.takenOver.max).toBe(200);
});

test('a lease that was lost long before a fault is not what the fault took over', () => {
  const kill = (n: number, at: number): ((script: Script) => Script) => {
    const fault = { type: 'fault', n, kind: 'worker-kill', target: 'n1' } as const;
    return (script) =>
      script
        .add(at, { ...fault, phase: 'start' })
        .add(at, { type: 'down', node: 'n1', why: 'SIGKILL', expected: true })
        .add(at + 1, { ...fault, phase: 'made' })
        .add(at + 50, { ...fault, phase: 'healed' });
  };
  const script = new Script().enqueue(1, 'a').claim(10, 'a', { token: 't1', leaseMs: 9_000 });
  kill(
    1,
    100,
  )(script)
    .claim(301, 'a', { token: 't2', node: 'n2' })
    .settle(349, 'a', { token: 't2', outcome: 'retry' });
  kill(
    2,
    1_000,
  )(script)
    .claim(9_000, 'a', { token: 't3', node: 'n2' })
    .settle(9_050, 'a', { token: 't3' })
    .final('a', 'done', { token: 't3' });
  const [{ made, takenOver } = { made: 0, takenOver: undefined }] = script.verdict().recoveries;
  expect(made).toBe(2);
  expect(takenOver).toMatchObject({ count: 1, max: 201 });
});
