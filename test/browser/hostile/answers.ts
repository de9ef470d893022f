import { hostileTexts } from './texts.ts';

/** Fields that the page branches on or the server generates: no stranger could have written their texts. */
const own: ReadonlySet<string> = new Set([
  'kind',
  'state',
  'status',
  'severity',
  'window',
  'next',
  'role',
  'csrf',
  'actions',
  'id',
  'n',
  'group',
  'bytes',
  'indexBytes',
  'liveRows',
  'deadRows',
]);

const time = /^\d{4}-\d\d-\d\dT/;

/** Number of texts that were replaced. */
export interface Tally {
  texts: number;
}

/**
 * Returns a copy of a server's answer in which every text is hostile, whatever the database and the server
 * would have accepted. Text number n becomes hostile text number n + `turn`.
 */
export function poisoned(value: unknown, turn: number, tally: Tally): unknown {
  const next = (): string => {
    tally.texts += 1;
    return hostileTexts[(tally.texts + turn) % hostileTexts.length] ?? '';
  };
  const walk = (part: unknown, name: string): unknown => {
    if (typeof part === 'string') return own.has(name) || time.test(part) ? part : next();
    if (Array.isArray(part)) return part.map((item) => walk(item, name));
    if (typeof part !== 'object' || part === null) return part;
    return Object.fromEntries(Object.entries(part).map(([key, item]) => [key, walk(item, key)]));
  };
  return walk(value, '');
}
