import { hostileTexts } from './hostile-texts.ts';

/** What the page decides by, and what the server makes itself: not texts that a stranger could write. */
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

/** How many texts were replaced. */
export interface Tally {
  texts: number;
}

/**
 * An answer of the server's in which every text is a hostile one, whatever the database and the server would have let through:
 * the text number n is the hostile one number n + `turn`.
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
