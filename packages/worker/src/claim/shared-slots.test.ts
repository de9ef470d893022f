import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { SlotShare } from './shared-slots.ts';
import { createSharedSlots } from './shared-slots.ts';

const nothing = (): void => {};

describe('shared slots', () => {
  test('one worker alone has all of them', () => {
    const share = createSharedSlots(4).join(nothing);
    expect([share.room(), share.reserve(10), share.room(), share.reserve(1)]).toEqual([4, 4, 0, 0]);
    share.give(3);
    expect(share.reserve(2)).toBe(2);
  });

  test('one that waits has the next slot, and the one that gave it waits for its turn', () => {
    const slots = createSharedSlots(2);
    const woken: string[] = [];
    const a = slots.join(() => woken.push('a'));
    const b = slots.join(() => woken.push('b'));
    expect(a.reserve(2)).toBe(2);
    expect(b.reserve(1)).toBe(0);
    b.wait();
    a.give(1);
    expect(woken).toEqual(['b']);
    expect(a.reserve(1)).toBe(0);
    a.wait();
    expect(b.reserve(2)).toBe(1);
    b.wait();
    a.give(1);
    expect([a.room(), b.room()]).toEqual([1, 0]);
    expect(woken).toEqual(['b', 'a']);
  });

  test('one that passes lets the next one have its turn', () => {
    const slots = createSharedSlots(1);
    const woken: string[] = [];
    const [a, b, c] = ['a', 'b', 'c'].map((name) => slots.join(() => woken.push(name))) as [
      SlotShare,
      SlotShare,
      SlotShare,
    ];
    a.reserve(1);
    b.wait();
    c.wait();
    a.give(1);
    expect(c.reserve(1)).toBe(0);
    b.pass();
    expect(woken).toEqual(['b', 'c']);
    expect(c.reserve(1)).toBe(1);
  });

  test('no more are reserved than there are, and while some wait, none is idle or held twice', () => {
    const step = fc.record({
      who: fc.nat(3),
      what: fc.constantFrom('reserve', 'give', 'pass'),
      count: fc.integer({ min: 1, max: 6 }),
    });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8 }), fc.array(step, { maxLength: 200 }), (size, steps) => {
        const slots = createSharedSlots(size);
        const held = [0, 0, 0, 0];
        const shares = held.map(() => slots.join(nothing));
        const waits = new Set<number>();
        for (const { who, what, count } of steps) {
          const share = shares[who] as SlotShare;
          const own = held[who] ?? 0;
          if (what === 'reserve') {
            const got = share.reserve(count);
            held[who] = own + got;
            if (got > 0) waits.delete(who);
            else {
              share.wait();
              waits.add(who);
            }
          } else if (what === 'give') {
            const given = Math.min(count, own);
            share.give(given);
            held[who] = own - given;
          } else {
            share.pass();
            waits.delete(who);
          }
          const used = held.reduce((sum, one) => sum + one, 0);
          expect(used).toBeLessThanOrEqual(size);
          // a free slot is always open to somebody who waits, or to anybody
          const rooms = shares.map((one) => one.room());
          const open = rooms.filter((room, one) => room > 0 && (waits.size === 0 || waits.has(one))).length;
          expect(open > 0).toBe(used < size);
        }
      }),
    );
  });
});
