/** An error as plain data, as {@link errorData} makes it. */
export interface ErrorData {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  /** Of an `AggregateError`, and of any other error that has a list of that name. */
  readonly errors?: readonly ErrorData[];
  readonly cause?: ErrorData;
}

const nameMax = 200;
const codeMax = 100;
/** Characters of the error itself, and of each that it carries. */
const outer = { message: 2_000, stack: 8_000 };
const inner = { message: 1_000, stack: 2_000 };
/** Bounds of what an error carries: causes of causes, the list of one error, and the characters of all of them. */
const depthMax = 5;
const errorsMax = 10;
const carriedMax = 8_000;
/** An error without a text counts as so many characters. */
const countedMin = 100;

/**
 * The error as plain data, with its `cause` and its `errors`, bounded: message up to 2,000 characters, stack up to 8,000; causes up to 5
 * deep, lists up to 10 long, and all of them together up to 8,000 characters. No NUL (jsonb refuses it). What was thrown
 * and is no error is told as JSON.
 */
export function errorData(error: unknown): ErrorData {
  return errorDataBy(error, jsonOf);
}

/** The same, with objects that are no errors told by `say`. */
export function errorDataBy(error: unknown, say: (thrown: object) => unknown): ErrorData {
  return read(error, { say, left: carriedMax, path: [] });
}

interface Walk {
  readonly say: (thrown: object) => unknown;
  /** Characters that may still be carried. */
  left: number;
  /** From the error down to the one that is being read: a cause may be an error that it caused. */
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

/** Empty: there is none, it is too much, or the error is among its own causes. */
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

/** `{"code":5}`; what JSON says nothing of, such as an error of another realm, says it itself. */
function jsonOf(thrown: object): unknown {
  const text = JSON.stringify(thrown) as string | undefined;
  // escapes of what jsonb refuses
  return text === undefined || text === '{}' ? thrown : text.replace(/\\u(?:0000|d[89a-f]..)/g, '');
}

/** What handlers throw may be anything: reading it, or making a text of it, may throw in turn. */
function textOf(work: () => unknown, max: number): string | undefined {
  try {
    return String(work()).slice(0, max).replaceAll('\u0000', '').toWellFormed();
  } catch {
    return undefined;
  }
}

const lineMax = 2_000;

/**
 * An error and its causes on one line, for lists and logs: `fetch failed: connect ECONNREFUSED 127.0.0.1:1`. Takes what
 * {@link errorData} made, also as it was read from a row, which other writers may have filled with anything.
 */
export function errorLine(error: unknown): string {
  return lineOf(error, 0).slice(0, lineMax).toWellFormed();
}

function lineOf(error: unknown, depth: number): string {
  if (!isObject(error)) return typeof error === 'string' ? error : (JSON.stringify(error) ?? '');
  const { name, message, errors, cause } = error as Readonly<Record<string, unknown>>;
  const said = typeof message === 'string' ? message : (JSON.stringify(message) ?? '');
  let line = said === '' && typeof name === 'string' ? name : said;
  if (depth >= depthMax) return line;
  if (Array.isArray(errors) && errors.length > 0) {
    line += ` (${errors
      .slice(0, errorsMax)
      .map((one) => lineOf(one, depth + 1))
      .join('; ')})`;
  }
  if (cause === undefined || cause === null) return line;
  const why = lineOf(cause, depth + 1);
  // many wrap an error and repeat its message
  return line.includes(why) ? line : `${line}: ${why}`;
}
