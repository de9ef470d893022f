/** An error as plain data, with its causes. */
export interface ErrorData {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  /** Errors of an `AggregateError`, or of another error with a list `errors`: up to 10. */
  readonly errors?: readonly ErrorData[];
  readonly cause?: ErrorData;
}

const nameMax = 200;
const codeMax = 100;
/** Most characters of the error itself (`outer`), and of each error that it carries (`inner`). */
const outer = { message: 2_000, stack: 8_000 };
const inner = { message: 1_000, stack: 2_000 };
/** Bounds of the carried errors: depth of causes, length of one list, and characters of all of them. */
const depthMax = 5;
const errorsMax = 10;
const carriedMax = 8_000;
/** Characters that a carried error counts at least, so that empty ones also use up the total. */
const countedMin = 100;

/**
 * Returns the error as plain data, with its `cause` and its `errors`. A value that is no Error is named
 * `NonError`; its message is its JSON, or its text where JSON has none.
 *
 * Bounds: message up to 2,000 characters, stack up to 8,000; of a carried error 1,000 and 2,000. Causes up to
 * 5 deep, lists up to 10 long; nothing more is carried once the carried errors have 8,000 characters. NUL and
 * lone surrogates are replaced or removed, since jsonb refuses them.
 */
export function errorData(error: unknown): ErrorData {
  return errorDataBy(error, jsonOf);
}

/** Same as {@link errorData}, except that `say` describes thrown objects that are no errors. */
export function errorDataBy(error: unknown, say: (thrown: object) => unknown): ErrorData {
  return read(error, { say, left: carriedMax, path: [] });
}

interface Walk {
  readonly say: (thrown: object) => unknown;
  /** Characters that may still be carried. */
  left: number;
  /** Errors from the outermost down to the one being read: an error may be among its own causes. */
  readonly path: unknown[];
}

function read(error: unknown, walk: Walk): ErrorData {
  const carried = walk.path.length > 0;
  const max = carried ? inner : outer;
  const unreadable = 'what was thrown can not be read';
  if (!isError(error)) {
    const text = textOf(() => (isObject(error) ? walk.say(error) : error), max.message) ?? unreadable;
    if (carried) walk.left -= Math.max(countedMin, text.length);
    return { name: 'NonError', message: text };
  }
  const stack = textOf(() => error.stack ?? '', max.stack) ?? '';
  const code = textOf(() => codeOf(error), codeMax) ?? '';
  const own = {
    name: textOf(() => error.name, nameMax) ?? 'Error',
    message: textOf(() => error.message, max.message) ?? unreadable,
    ...(code === '' ? {} : { code }),
    ...(stack === '' ? {} : { stack }),
  };
  if (carried) walk.left -= Math.max(countedMin, own.name.length + own.message.length + stack.length);
  walk.path.push(error);
  const errors = listOf(error).flatMap((one) => carriedBy(one, walk));
  const [cause] = carriedBy(memberOf(error, 'cause'), walk);
  walk.path.pop();
  return { ...own, ...(errors.length === 0 ? {} : { errors }), ...(cause === undefined ? {} : { cause }) };
}

/**
 * Reads a carried error. Empty when there is none, a bound is reached, or the error is among its own causes.
 */
function carriedBy(error: unknown, walk: Walk): readonly ErrorData[] {
  if (error === undefined || error === null || walk.left <= 0) return [];
  if (walk.path.length > depthMax || walk.path.includes(error)) return [];
  return [read(error, walk)];
}

function listOf(error: Error): readonly unknown[] {
  const errors = memberOf(error, 'errors');
  try {
    return Array.isArray(errors) ? errors.slice(0, errorsMax) : [];
  } catch {
    return []; // a revoked proxy
  }
}

function memberOf(error: Error, name: 'cause' | 'errors'): unknown {
  try {
    return (error as { readonly cause?: unknown; readonly errors?: unknown })[name];
  } catch {
    return undefined; // a getter that throws
  }
}

function codeOf(error: Error): string {
  const { code } = error as { readonly code?: unknown };
  return typeof code === 'string' && code.length <= codeMax ? code : '';
}

function isError(value: unknown): value is Error {
  try {
    return value instanceof Error;
  } catch {
    return false; // a revoked proxy
  }
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/**
 * Returns the JSON of a thrown object: `{"code":5}`. Returns the object itself when its JSON is empty, as
 * that of an error of another realm: its own text says more.
 */
function jsonOf(thrown: object): unknown {
  const text = JSON.stringify(thrown) as string | undefined;
  // drop the escapes of characters that jsonb refuses: NUL and lone surrogates
  return text === undefined || text === '{}' ? thrown : text.replace(/\\u(?:0000|d[89a-f]..)/g, '');
}

/**
 * Returns the text of a value, or undefined when reading it or converting it throws: handlers can throw
 * anything.
 */
function textOf(work: () => unknown, max: number): string | undefined {
  try {
    return String(work()).slice(0, max).replaceAll('\u0000', '').toWellFormed();
  } catch {
    return undefined;
  }
}

const lineMax = 2_000;

/**
 * Returns an error and its causes on one line, up to 2,000 characters, for lists and logs:
 * `fetch failed: connect ECONNREFUSED 127.0.0.1:1`. Takes the result of {@link errorData}, also one read from
 * a row, which other writers may have filled with anything.
 */
export function errorLine(error: unknown): string {
  return lineOf(error, 0).slice(0, lineMax).toWellFormed();
}

/**
 * Returns name and message of an error read from a row, as texts: other writers may have stored anything. `name` is null
 * if it is no text.
 */
export function errorTexts(stored: unknown): { readonly name: string | null; readonly message: string } {
  const { name, message } = isObject(stored)
    ? (stored as Readonly<Record<string, unknown>>)
    : { message: stored };
  return {
    name: typeof name === 'string' ? name : null,
    message: typeof message === 'string' ? message : (JSON.stringify(message) ?? ''),
  };
}

function lineOf(error: unknown, depth: number): string {
  const { name, message } = errorTexts(error);
  let line = message === '' ? (name ?? '') : message;
  if (!isObject(error)) return line;
  const { errors, cause } = error as Readonly<Record<string, unknown>>;
  if (depth >= depthMax) return line;
  if (Array.isArray(errors) && errors.length > 0) {
    line += ` (${errors
      .slice(0, errorsMax)
      .map((one) => lineOf(one, depth + 1))
      .join('; ')})`;
  }
  if (cause === undefined || cause === null) return line;
  const why = lineOf(cause, depth + 1);
  // many errors repeat the message of the error that they wrap
  return line.includes(why) ? line : `${line}: ${why}`;
}
