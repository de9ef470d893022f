import type { Rule } from '@pgqueue/core/internal';
import pg from 'pg';

const expected =
  'a connection string: it looks like postgres://USER@HOST:5432/DATABASE, with :PASSWORD behind USER where there is one';

/**
 * Returns the problem with a connection string given by `from`, if any. The driver itself reads it, with the files
 * that it names. The message never contains the value, which holds a password.
 */
export function connectionStringProblem(value: unknown, from: string): string | undefined {
  // the driver takes any other text, too, as the name of a database
  if (typeof value !== 'string' || !/^(?:postgres(?:ql)?:\/\/|socket:|\/)/.test(value))
    return `${from} is not ${expected}`;
  if (namesSeveral(hostIn(value)) || /[?&]target_session_attrs=/.test(value)) return several(from);
  try {
    const { host } = new pg.Client({ connectionString: value });
    return namesSeveral(host) ? several(from) : undefined;
  } catch (error) {
    const { path } = error as NodeJS.ErrnoException;
    if (path === undefined) return `${from} is not ${expected}`;
    const [option = 'a file'] = [...parametersOf(value)].find(([, file]) => file === path) ?? [];
    return `${from}: ${option} can't be read: ${(error as Error).message}`;
  }
}

/** Rule for the option that names a database. */
export const aConnectionString: Rule = {
  expected,
  judge: (value, path) => {
    const problem = connectionStringProblem(value, path);
    return problem === undefined ? true : [problem];
  },
};

/** Returns host and port as they are written: with a port each, the driver reads no list. */
function hostIn(text: string): string {
  return /^\w+:\/\/(?:[^/?#]*@)?([^/?#]*)/.exec(text)?.[1] ?? '';
}

function namesSeveral(host: string): boolean {
  return /,|%2c/i.test(host);
}

function several(from: string): string {
  return `${from} has a list of hosts, or target_session_attrs, which the driver does not know: name one address that follows the primary (operations.md, "Failover")`;
}

function parametersOf(text: string): URLSearchParams {
  return new URLSearchParams(text.slice(text.indexOf('?') + 1));
}
