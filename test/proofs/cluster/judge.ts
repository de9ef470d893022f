// Checks of a run over several installations, from the records of all of them. Pure.
import type { Crowd, Excess } from '../checks.ts';
import { mostAtOnce, worstWindow } from '../checks.ts';
import type { RecordedItem } from '../recorder.ts';
import { limits } from './actors/limits.ts';
import type { Sent } from './load.ts';

/** A work item, and the installation that dispatched it. */
export interface Item extends Pick<
  RecordedItem,
  'id' | 'queue' | 'key' | 'insertedMs' | 'dispatchedMs' | 'endedMs'
> {
  readonly site: string;
}

/** A job that has come to its end. */
export interface End {
  readonly id: string;
  readonly site: string;
  readonly outcome: string;
}

export interface Records {
  readonly sent: readonly Sent[];
  readonly items: readonly Item[];
  readonly ends: readonly End[];
}

/** Most sentences about one rule. */
const toldMax = 20;

export function judge({ sent, items, ends }: Records): readonly string[] {
  return [lost(sent, ends), endedTwice(ends), atOnce(items), outOfOrder(sent, items), beyond(items)].flatMap(
    told,
  );
}

function told(all: readonly string[]): readonly string[] {
  return all.length <= toldMax
    ? all
    : [...all.slice(0, toldMax), `and ${all.length - toldMax} more like the last`];
}

function lost(sent: readonly Sent[], ends: readonly End[]): readonly string[] {
  const ended = new Set(ends.map(({ id }) => id));
  return sent.filter(({ id }) => !ended.has(id)).map(({ id, key }) => `job ${id} of ${key} is lost`);
}

function endedTwice(ends: readonly End[]): readonly string[] {
  return [...Map.groupBy(ends, ({ id }) => id)].flatMap(([id, own]) =>
    own.length < 2
      ? []
      : [
          `job ${id} has ended ${own.length} times: ${own.map(({ outcome, site }) => `${outcome} in ${site}`).join(', ')}`,
        ],
  );
}

/** Keys have one job at a time, wherever they are at home. */
function atOnce(items: readonly Item[]): readonly string[] {
  const crowds = mostAtOnce(
    items.map(({ key, insertedMs, endedMs }) => ({ group: key, beginMs: insertedMs, endMs: endedMs })),
  );
  return crowds
    .filter(({ count }) => count > 1)
    .map(({ group, count, atMs }) => `${count} jobs of ${group} at once at ${new Date(atMs).toISOString()}`);
}

/** Returns the largest number of calls at once, over all installations. */
export function crowdOf(items: readonly Item[]): Crowd | undefined {
  const [crowd] = mostAtOnce(
    of(items, 'calls').map(({ queue, insertedMs, endedMs }) => ({
      group: queue,
      beginMs: insertedMs,
      endMs: endedMs,
    })),
  );
  return crowd;
}

/** Returns the window with most mails beyond their rate, over all installations. */
export function windowOf(items: readonly Item[]): Excess {
  return worstWindow(
    of(items, 'mails').map(({ dispatchedMs }) => dispatchedMs),
    limits.mails,
  );
}

function of(items: readonly Item[], wanted: string): readonly Item[] {
  return items.filter(({ queue }) => queue === wanted);
}

/** Limits over all installations hold at each moment, and in each window of time. */
function beyond(items: readonly Item[]): readonly string[] {
  const crowd = crowdOf(items);
  const { jobs, fromMs, toMs } = windowOf(items);
  const at = (ms: number): string => new Date(ms).toISOString();
  return [
    ...(crowd !== undefined && crowd.count > limits.calls
      ? [`${crowd.count} calls at once at ${at(crowd.atMs)}`]
      : []),
    ...(jobs > 1e-3 ? [`${jobs.toFixed(2)} mails too many between ${at(fromMs)} and ${at(toMs)}`] : []),
  ];
}

/** The jobs of a key are dispatched for the first time in the order in which they were enqueued. */
function outOfOrder(sent: readonly Sent[], items: readonly Item[]): readonly string[] {
  const first = new Map<string, Item>();
  for (const item of items.toSorted((a, b) => a.insertedMs - b.insertedMs))
    if (!first.has(item.id)) first.set(item.id, item);
  const inOrder = sent.filter(({ delayed }) => !delayed).toSorted((a, b) => a.n - b.n);
  return [...Map.groupBy(inOrder, ({ key }) => key)].flatMap(([key, own]) => {
    let latest: { readonly n: number; readonly item: Item } | undefined;
    return own.flatMap(({ id, n }) => {
      const item = first.get(id);
      if (item === undefined) return [];
      if (latest === undefined || item.insertedMs > latest.item.insertedMs) {
        latest = { n, item };
        return [];
      }
      return [`${key}: job ${n} (${id}) began in ${item.site} before job ${latest.n} in ${latest.item.site}`];
    });
  });
}
