import { describe, expect, test } from 'vitest';
import { good, Script } from './script.ts';

describe('a job that began twice', () => {
  const again = (
    secondAt: number,
    more: (script: Script) => Script = (script) => script,
  ): readonly string[] => {
    const script = new Script().enqueue(10, 'a').claim(100, 'a', { token: 't1' });
    for (let at = 0; at < 6_000; at += 500) script.add(at, { type: 'beat', node: 'n1', sentAt: at });
    more(script)
      .claim(secondAt, 'a', { token: 't2', node: 'n2' })
      .settle(secondAt + 10, 'a', { token: 't2' })
      .final('a', 'done', { token: 't2' });
    const { duplicates } = script.verdict();
    return duplicates.unexplained.length > 0 ? ['unexplained'] : Object.keys(duplicates.explained);
  };

  test('within its lease, on a living node, is not explained', () => {
    expect(again(1_500)).toEqual(['unexplained']);
  });

  test('after its lease has ended', () => {
    expect(again(2_100)).toEqual(['expired']);
    const extended = (script: Script): Script =>
      script
        .add(1_000, { type: 'extend', phase: 'invoke', op: 'x', leases: [['a', 't1', 2_000]] })
        .add(1_001, { type: 'extend', phase: 'ok', op: 'x', held: ['a'] });
    expect(again(2_100, extended)).toEqual(['unexplained']);
    expect(again(3_010, extended)).toEqual(['expired']);
  });

  test('after its node was reset, has died, or fell silent', () => {
    expect(again(900, (script) => script.add(500, { type: 'reset', node: 'n1' }))).toEqual(['reset']);
    expect(again(900, (script) => script.add(500, { type: 'reset', node: 'n3' }))).toEqual(['unexplained']);
    // asked for before it was claimed, and made after that
    const made = { type: 'fault', n: 1, kind: 'node-reset', phase: 'made', spoils: [] } as const;
    const slow = (at: number, target: string) =>
      again(900, (script) => {
        script.add(1, { type: 'reset', node: 'n1' });
        return script.add(at, { ...made, target });
      });
    expect(slow(600, 'n1')).toEqual(['reset']);
    expect(slow(600, 'n2')).toEqual(['unexplained']);
    expect(slow(2, 'n1')).toEqual(['unexplained']);
    expect(
      again(900, (script) => script.add(500, { type: 'down', node: 'n1', why: 'SIGKILL', expected: true })),
    ).toEqual(['node_ended']);
    const silent = new Script()
      .enqueue(10, 'a')
      .add(50, { type: 'beat', node: 'n1', sentAt: 50 })
      .claim(100, 'a', { token: 't1', leaseMs: 60_000 })
      .claim(1_700, 'a', { token: 't2', node: 'n2' })
      .settle(1_800, 'a', { token: 't2' })
      .final('a', 'done', { token: 't2' });
    expect(silent.verdict().duplicates.explained).toEqual({ node_silent: 1 });
  });

  test('after a crash of the server, where its claim was a moment old', () => {
    const crash =
      (at: number) =>
      (script: Script): Script =>
        script
          .add(at, { type: 'fault', n: 1, kind: 'postgres-kill', phase: 'start', spoils: ['recent-commits'] })
          .add(at + 5, { type: 'fault', n: 1, kind: 'postgres-kill', phase: 'made' })
          .add(at + 9, { type: 'fault', n: 1, kind: 'postgres-kill', phase: 'healed' });
    expect(again(900, crash(300))).toEqual(['database_crash']);
    expect(again(1_950, crash(1_900))).toEqual(['unexplained']);
  });

  test('after a retry or a release is none', () => {
    expect(again(900, (script) => script.settle(200, 'a', { token: 't1', outcome: 'retry' }))).toEqual([]);
    const released = (script: Script): Script =>
      script
        .add(200, { type: 'release', phase: 'invoke', op: 'r', leases: [['a', 't1']] })
        .add(201, { type: 'release', phase: 'ok', op: 'r', given: ['a'] });
    expect(again(900, released)).toEqual([]);
    const refused = (script: Script): Script =>
      script.settle(200, 'a', { token: 't1', outcome: 'retry', verdict: null });
    expect(again(900, refused)).toEqual(['unexplained']);
  });

  test('under a claim that was made before, and answered after', () => {
    const late = (resets: string): readonly string[] => {
      const script = new Script()
        .enqueue(10, 'a')
        .claim(100, 'a', { token: 't1', answeredAt: 160 })
        .add(120, { type: 'reset', node: resets })
        .claim(140, 'a', { token: 't2', node: 'n2' })
        .settle(150, 'a', { token: 't2' })
        .final('a', 'done', { token: 't2' });
      const { duplicates } = script.verdict();
      return duplicates.unexplained.length > 0 ? ['unexplained'] : Object.keys(duplicates.explained);
    };
    expect(late('n1')).toEqual(['reset']);
    expect(late('n3')).toEqual(['unexplained']);
  });

  test('after its end was accepted is never explained', () => {
    expect(again(9_000, (script) => script.settle(200, 'a', { token: 't1' }))).toEqual(['unexplained']);
  });

  test('under one token is never explained', () => {
    const script = good().add(30, { type: 'start', id: 'a', token: 't1', node: 'n1' });
    expect(script.violated()).toEqual(['unexplained_duplicates']);
  });

  test('more often than its limit of crashes allows', () => {
    const poisoned = (crashes: number): Script => {
      const script = new Script({ crashMax: { poison: 3 } }).enqueue(10, 'a');
      for (let n = 0; n <= crashes; n += 1) {
        script
          .claim(100 + 100 * n, 'a', { token: `t${n}`, node: `n${n}` })
          .add(150 + 100 * n, { type: 'down', node: `n${n}`, why: 'SIGKILL', expected: true });
      }
      return script.final('a', 'dead', { task: 'poison', token: 't2' });
    };
    expect(poisoned(3).violated()).toEqual([]);
    expect(poisoned(4).violated()).toEqual(['crash_limit']);
    // the server has forgotten one of the claims, and its crash
    const crash = { type: 'fault', n: 1, kind: 'disk-full', spoils: ['recent-commits'] } as const;
    const forgetful = poisoned(4)
      .add(140, { ...crash, phase: 'start' })
      .add(145, { ...crash, phase: 'made' })
      .add(149, { ...crash, phase: 'healed' });
    expect(forgetful.violated()).toEqual([]);
  });
});
