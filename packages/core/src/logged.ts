import { errorData } from './errors.ts';

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
 * An error as it is logged: name, message, code, and where it was raised; nothing else that it carries, since PostgreSQL's details
 * quote whole rows. Messages about wrong values (SQLSTATE class 22) quote the value: it is left out. What a handler writes into an
 * error's message is logged.
 */
export function loggedError(error: unknown): {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
} {
  const { name, message, stack } = errorData(error);
  const code = codeOf(error);
  // the stack begins with the message, which may have several lines
  const frames = stack?.split('\n').filter((line) => /^\s+at /.test(line));
  return {
    name,
    message: code !== undefined && /^22[0-9A-Z]{3}$/.test(code) ? withoutQuoted(message) : message,
    ...(code === undefined ? {} : { code }),
    ...(frames === undefined || frames.length === 0 ? {} : { stack: frames.join('\n') }),
  };
}

function codeOf(error: unknown): string | undefined {
  try {
    const { code } = error as { readonly code?: unknown };
    return typeof code === 'string' && code.length <= 100 ? code : undefined;
  } catch {
    return undefined; // there is nothing that has a code, or reading it throws
  }
}

/** From the first quotation mark to the last: a value may have some, too. */
function withoutQuoted(message: string): string {
  return message.replace(/"[^]*"/, '"***"');
}
