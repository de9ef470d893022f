import type { CrossingError } from './protocol.ts';
import { received, sentError } from './protocol.ts';

/** Levels that are kept of data with a cycle: as many as pino keeps. */
const cyclicLevels = 5;
/** Marks an error among the data. */
const mark = 'pgqueue.error';

/**
 * Returns what a handler logs as a text for its node. Its errors stay errors, and what JSON can't hold never fails
 * the handler: whole numbers become numbers or texts, and of data with a cycle some levels are kept.
 */
export function logText(data: unknown): string {
  for (const levels of [Infinity, cyclicLevels]) {
    try {
      return JSON.stringify(data, writer(levels)) ?? '{}';
    } catch {
      // it has a cycle, or a member whose reading throws
    }
  }
  return '{"unlogged":"a member of it can\'t be read"}';
}

/** Restores what a handler has logged. */
export function logData(text: string): object {
  return JSON.parse(text, (_name, value: unknown) => {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, mark)) return value;
    const { [mark]: sent, own } = value as { readonly [mark]: CrossingError; readonly own: object };
    const error = received(sent);
    for (const [name, member] of Object.entries(own) as readonly [string, unknown][])
      Object.defineProperty(error, name, {
        value: member,
        enumerable: true,
        configurable: true,
        writable: true,
      });
    return error;
  }) as object;
}

type Writer = (this: Readonly<Record<string, unknown>>, name: string, value: unknown) => unknown;

function writer(levels: number): Writer {
  const above: object[] = [];
  return function (name, value) {
    const given = this[name];
    if (given instanceof Error) return { [mark]: sentError(given), own: plainMembers(given) };
    if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
    if (levels === Infinity || typeof value !== 'object' || value === null) return value;
    while (above.length > 0 && above.at(-1) !== this) above.pop();
    if (above.includes(value)) return '[Circular]';
    if (above.length > levels) return Array.isArray(value) ? '[Array]' : '[Object]';
    above.push(value);
    return value;
  };
}

/** Members that loggers write beside an error's message, such as its code. */
function plainMembers(error: Error): object {
  const members = Object.entries(error) as readonly [string, unknown][];
  return Object.fromEntries(members.filter(([, member]) => typeof member !== 'object'));
}
