import type { ErrorData } from './error-data.ts';
import { errorDataBy } from './error-data.ts';

/**
 * Data of an event as it is logged: ids and figures. Of an error what {@link loggedError} leaves, of a payload's problems how many, of a
 * batch nothing: what it was made of is for metrics.
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
 * An error as it is logged, and what it carries: names, messages, codes, and where it was raised; nothing else, since PostgreSQL's details
 * quote whole rows. Messages about wrong values (SQLSTATE class 22) quote the value: it is left out. Of a thrown object that is no error the
 * names of its members are told. What a handler writes into an error's message is logged.
 */
export function loggedError(error: unknown): ErrorData {
  return logged(errorDataBy(error, memberNames));
}

function logged({ name, message, code, stack, errors, cause }: ErrorData): ErrorData {
  // the stack begins with the message, which may have several lines
  const frames = stack?.split('\n').filter((line) => /^\s+at /.test(line)) ?? [];
  return {
    name,
    message: code !== undefined && /^22[0-9A-Z]{3}$/.test(code) ? withoutQuoted(message) : message,
    ...(code === undefined ? {} : { code }),
    ...(frames.length === 0 ? {} : { stack: frames.join('\n') }),
    ...(errors === undefined ? {} : { errors: errors.map(logged) }),
    ...(cause === undefined ? {} : { cause: logged(cause) }),
  };
}

const namesMax = 10;

function memberNames(thrown: object): string {
  const names = Object.keys(thrown).slice(0, namesMax);
  return `an object${names.length === 0 ? '' : ` with ${names.join(', ')}`}, which is no Error`;
}

/** From the first quotation mark to the last: a value may have some, too. */
function withoutQuoted(message: string): string {
  return message.replace(/"[^]*"/, '"***"');
}
