import type { Rule } from '@pgqueue/core/internal';

const expected =
  'a connection string: it looks like postgres://USER@HOST:5432/DATABASE, with :PASSWORD behind USER where there is one';

/**
 * Reports whether the driver accepts a text as a connection string: `postgres://`, `postgresql://`, or the
 * folder of a Unix socket.
 */
export function isConnectionString(text: string): boolean {
  if (/^(?:postgres(?:ql)?|socket):\/\//.test(text)) return URL.canParse(text);
  return text.startsWith('/') || text.startsWith('socket:');
}

/**
 * Returns the problem with a connection string given by `from`, if any. The message never contains the value,
 * which holds a password.
 */
export function connectionStringProblem(value: unknown, from: string): string | undefined {
  if (typeof value === 'string' && isConnectionString(value)) return undefined;
  return `${from} is not ${expected}`;
}

/** Rule for the option that names a database. */
export const aConnectionString: Rule = {
  expected,
  judge: (value, path) => {
    const problem = connectionStringProblem(value, path);
    return problem === undefined ? true : [problem];
  },
};
