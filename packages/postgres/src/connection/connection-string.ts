import type { Rule } from '@pgqueue/core';

const expected =
  'a connection string: it looks like postgres://USER@HOST:5432/DATABASE, with :PASSWORD behind USER where there is one';

/** Whether a text is one: `postgres://` or `postgresql://`, or the folder of a Unix socket, as the driver takes it. */
export function isConnectionString(text: string): boolean {
  if (/^(?:postgres(?:ql)?|socket):\/\//.test(text)) return URL.canParse(text);
  return text.startsWith('/') || text.startsWith('socket:');
}

/** What is wrong with a connection string that `from` gave; never says what the value is: it holds a password. */
export function connectionStringProblem(value: unknown, from: string): string | undefined {
  if (typeof value === 'string' && isConnectionString(value)) return undefined;
  return `${from} is not ${expected}`;
}

/** The option by which a database is named. */
export const aConnectionString: Rule = {
  expected,
  judge: (value, path) => {
    const problem = connectionStringProblem(value, path);
    return problem === undefined ? true : [problem];
  },
};
