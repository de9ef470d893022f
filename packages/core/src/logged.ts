import type { ErrorData } from './error-data.ts';
import { errorDataBy } from './error-data.ts';

/**
 * Returns the data of an event as they are logged: ids and figures. Errors are reduced by
 * {@link loggedError}, and a payload's problems to their number. A batch is left out, since its counts are
 * for metrics.
 */
export function loggedFields(data: object): object {
  const {
    error,
    problems,
    batch: _batch,
    ...rest
  } = data as {
    readonly error?: unknown;
    readonly problems?: unknown;
    readonly batch?: unknown;
  };
  return {
    ...rest,
    ...(problems === undefined ? {} : { problems: Array.isArray(problems) ? problems.length : 1 }),
    ...(error === undefined ? {} : { err: loggedError(error) }),
  };
}

/**
 * Returns an error, and the errors that it carries, as they are logged: names, messages, codes, and stack
 * frames. Everything else is left out, since PostgreSQL's details quote whole rows. Messages about invalid
 * values (SQLSTATE class 22) quote the value, which is masked; of a wrong character they give the bytes. For a thrown object that is no error, only the
 * names of its members are given. Text that a handler writes into an error's message is logged.
 */
export function loggedError(error: unknown): ErrorData {
  return logged(errorDataBy(error, memberNames));
}

function logged({ name, message, code, stack, errors, cause }: ErrorData): ErrorData {
  // keep only the frames: the stack begins with the message, which may have several lines
  const frames = stack?.split('\n').filter((line) => /^\s+at /.test(line)) ?? [];
  return {
    name,
    message: quotesValue(code) ? withoutQuoted(message) : message,
    ...(code === undefined ? {} : { code }),
    ...(frames.length === 0 ? {} : { stack: frames.join('\n') }),
    ...(errors === undefined ? {} : { errors: errors.map(logged) }),
    ...(cause === undefined ? {} : { cause: logged(cause) }),
  };
}

/** Codes for a character that the database can't hold: messages have only its bytes, and quote encodings. */
const ofEncoding = new Set(['22021', '22P05']);

function quotesValue(code: string | undefined): boolean {
  return code !== undefined && /^22[0-9A-Z]{3}$/.test(code) && !ofEncoding.has(code);
}

const namesMax = 10;

function memberNames(thrown: object): string {
  const names = Object.keys(thrown).slice(0, namesMax);
  return `an object${names.length === 0 ? '' : ` with ${names.join(', ')}`}, which is no Error`;
}

/**
 * Masks from the first quotation mark to the last, since a value may contain some. The server's language
 * (lc_messages) has its own marks.
 */
function withoutQuoted(message: string): string {
  return message.replace(/["«»‘-‟‹›「-』][^]*["«»‘-‟‹›「-』]/, '"***"');
}
