// Faults of the way between the processes and PostgreSQL.
import { setTimeout as delay } from 'node:timers/promises';
import type { CutProxy, Direction } from '../../support/cut-proxy.ts';
import type { Fault, FaultMaker } from '../fault.ts';
import type { Arena } from './arena.ts';
import { nothing, pick, proxyNames } from './arena.ts';

export function networkFaults({ proxies, pooler }: Arena): readonly FaultMaker[] {
  const bad = (
    kind: string,
    lastsMs: readonly [number, number],
    make: (proxy: CutProxy, random: () => number) => Omit<Fault, 'kind'>,
  ): FaultMaker => ({
    kind,
    lastsMs,
    takes: ['network'],
    make: (random) => ({ kind, ...make(proxies[pick(proxyNames, random)], random) }),
  });
  const oneWay = (kind: string, direction: Direction): FaultMaker =>
    bad(kind, [1_500, 4_500], (proxy, random) => {
      const cutAfter = random() < 0.5;
      return {
        start: () => proxy.hold(direction),
        heal: () => {
          // what was held back still arrives, late, or the connections are gone by then
          if (cutAfter) proxy.reset();
          proxy.hold(undefined);
        },
      };
    });
  return [
    bad('network-delay', [2_000, 5_000], (proxy, random) => ({
      start: () => proxy.delay(() => 50 + random() * 450),
      heal: () => proxy.delay(undefined),
    })),
    bad('network-reset', [0, 200], (proxy) => ({ start: () => proxy.reset(), heal: nothing })),
    oneWay('requests-dropped', 'to-server'),
    oneWay('replies-dropped', 'to-client'),
    bad('commit-reply-lost', [0, 0], (proxy) => ({
      start: () => repeat(8, () => proxy.cutReplyOf('commit')),
      heal: nothing,
    })),
    bad('reply-lost', [0, 0], (proxy) => ({
      start: () => repeat(8, () => proxy.cutNextReply()),
      heal: nothing,
    })),
    {
      kind: 'pooler-restart',
      lastsMs: [0, 0],
      takes: ['pooler', 'server'],
      ...(pooler === undefined ? { missing: 'pgbouncer is not installed' } : {}),
      make: (random) => {
        const downMs = random() * 1_500;
        return { kind: 'pooler-restart', start: () => pooler?.restart(downMs), heal: nothing };
      },
    },
  ];
}

async function repeat(times: number, act: () => void): Promise<void> {
  for (let n = 0; n < times; n += 1) {
    act();
    await delay(250);
  }
}
