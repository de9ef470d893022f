import type { Database, Target, TickInput, TickRead } from '@pgqueue/postgres';
import { readItemFacts, readTick, readTickState, settledMax } from '@pgqueue/postgres';
import type { Behind } from '../state/background-rescan.ts';
import type { Load } from '../state/consumption.ts';
import { capability } from '../state/consumption.ts';
import type { Ledger } from '../state/items/in-flight.ts';
import type { Memory } from '../state/leader-state.ts';
import type { Ask } from './snapshot.ts';
import { loadOf } from './snapshot.ts';

/** Whether all that waits is known, and nothing is left to be looked for: as long as nothing is enqueued, it stays so. */
export function knowsAll({ view, skipAhead, caughtUp }: Memory): boolean {
  return caughtUp && view.complete() && !skipAhead.walking();
}

/** What a tick looks at. */
export interface Looking extends Ask {
  readonly startedAt: number;
  readonly due: boolean;
  /** Only at what is in flight: what waits is known. */
  readonly brief: boolean;
}

/** Reads a snapshot, and brings what is remembered to it. */
export async function look(
  {
    database,
    questionsAfter,
    behind,
  }: { readonly database: Database; readonly questionsAfter: () => number; readonly behind: Behind },
  memory: Memory,
  looking: Looking,
): Promise<{ readonly read: TickRead; readonly load: Load }> {
  const { view, ledger, consumption, skipAhead, cursors, feeds } = memory;
  const { want, keys, rows: outOfTurn, startedAt, due, brief } = looking;
  const itemsFrom = itemsFromNow(memory, startedAt);
  const input: TickInput | undefined = brief
    ? undefined
    : {
        want,
        keys,
        ...skipAhead.starts(startedAt),
        ranges: cursors.ranges(startedAt, ledger.flying()),
        ...view.ask(memory.nowMs, { lanes: skipAhead.lanes(), rows: outOfTurn }),
        settled: feeds,
        itemsFrom,
        items: ledger.before(itemsFrom),
        due,
        questionsAfter: questionsAfter(),
      };
  const { read, jobs: unreadable } = memory.unreadable.without(
    await readKnown(database, { ledger, feeds, itemsFrom }, input),
    startedAt,
  );
  noteItems(memory, itemsFrom, startedAt);
  behind.look(memory, startedAt);
  const { state, enqueuers } = read;
  const rows =
    read.config === null
      ? read.rows
      : cursors.saw({
          rows: read.rows,
          enqueuers,
          nowMs: startedAt,
          tookMs: performance.now() - startedAt,
        });
  if (read.config !== null) memory.lastLook = { read, config: read.config, atMs: performance.now() };
  for (const { seq } of rows) memory.seq = Math.max(memory.seq, seq);
  [memory.ended, memory.owesLook] = [[], false];
  memory.nowMs = state.now;
  if (feeds) {
    const whole = state.settled.length < settledMax;
    memory.settled = [...memory.settled, ...ledger.settled(state.settled, whole, state.now)];
  }
  if (brief) view.age();
  else view.see(skipAhead.shown(rows), { keys, nowMs: startedAt, unreadable });
  const load = loadOf(read, ledger.flying().items);
  consumption.sample(load);
  rememberNodes(memory, read);
  return { read: { ...read, rows }, load };
}

/**
 * A snapshot of which every work item is known. Where some are not, what they are is asked for, and everything is read once more: an
 * item that ended between the two would be missing, while the lanes of the first read do not show that its job waits for a retry. The same where
 * a batch was taken apart that is looked at by its position.
 */
async function readKnown(
  database: Target,
  {
    ledger,
    feeds,
    itemsFrom,
  }: { readonly ledger: Ledger; readonly feeds: boolean; readonly itemsFrom: number },
  input: TickInput | undefined,
): Promise<TickRead> {
  for (let round = 1; ; round += 1) {
    const strays = { itemsFrom, items: ledger.before(itemsFrom) };
    const read =
      input === undefined
        ? await readBriefly(database, { settled: feeds, ...strays })
        : await readTick(database, { ...input, ...strays });
    const { items } = read.state;
    const { unknown, parts } = ledger.see(items, { settlements: feeds, from: itemsFrom });
    if (unknown.length + parts.length === 0) return read;
    // with items that it does not count, a plan could exceed a limit
    if (round === 5) throw new Error(`${unknown.length} work items are of jobs that can't be read`);
    const facts = await readItemFacts(database, [...unknown, ...parts]);
    if (unknown.length + facts.length === 0) return read;
    ledger.learn(facts, { items, unknown });
  }
}

async function readBriefly(
  database: Target,
  input: Pick<TickInput, 'settled' | 'itemsFrom' | 'items'>,
): Promise<TickRead> {
  return {
    state: await readTickState(database, input),
    enqueuers: null,
    config: null,
    due: null,
    rows: [],
    questions: [],
  };
}

/** However sure it is of what is gone, it looks every second from where the last such look would have begun. */
const rescanMs = 1_000;

function itemsFromNow({ items, ledger }: Memory, nowMs: number): number {
  return nowMs >= items.rescanAt ? items.floor : ledger.from();
}

/** What was looked at from that position on. */
function noteItems({ items, ledger }: Memory, from: number, nowMs: number): void {
  if (from <= items.floor) [items.floor, items.rescanAt] = [ledger.from(), nowMs + rescanMs];
}

/** Jobs that no node could run may have a place now. */
function rememberNodes(memory: Memory, { state }: TickRead): void {
  memory.nodes = state.nodes;
  const able = state.nodes.map((node) => `${node.pool} ${capability(node)}`).toSorted();
  const capabilities = [...new Set(able)].join('\n');
  if (capabilities !== memory.capabilities) memory.skipAhead.reset();
  memory.capabilities = capabilities;
}
