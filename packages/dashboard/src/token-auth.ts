import { createHash, timingSafeEqual } from 'node:crypto';
import { PgQueueError } from '@pgqueue/core';
import { repeated } from '@pgqueue/core/internal';
import type { Auth, User } from './options.ts';
import { isUserRole } from './options.ts';

/** A user who signs in with a token. */
export interface TokenUser extends User {
  /** At least 24 characters, from a random generator. */
  readonly token: string;
}

const tokenMin = 24;

/**
 * Reads a file of tokens. Each line is one user, `name role token`, with the role `viewer`, `operator` or
 * `producer`. Empty lines and lines that begin with `#` are skipped.
 *
 * @throws {PgQueueError} `configuration`, with all problems at once; the message never contains a token
 */
export function readTokens(text: string): readonly TokenUser[] {
  const problems: string[] = [];
  const users = text.split('\n').flatMap((line, index): readonly TokenUser[] => {
    const [name, role, token, ...more] = line.trim().split(/\s+/);
    if (name === undefined || name === '' || name.startsWith('#')) return [];
    const wrong = [
      ...(isUserRole(role) ? [] : ['the role must be viewer, operator or producer']),
      ...(name.includes(':') || name.length > 200
        ? ['the name must have no colon and 200 characters at most']
        : []),
      ...(token === undefined || token.length < tokenMin
        ? [`the token must have ${tokenMin} characters or more`]
        : []),
      ...(more.length > 0 ? ['there is more on it than name, role and token'] : []),
    ];
    problems.push(...wrong.map((problem) => `line ${index + 1}: ${problem}`));
    if (token === undefined || !isUserRole(role)) return [];
    return [{ name, role, token }];
  });
  if (repeated(users.map(({ name }) => name)).length > 0) problems.push('a name stands twice');
  if (users.length === 0 && problems.length === 0) problems.push('it names nobody');
  if (problems.length === 0) return users;
  throw new PgQueueError('configuration', `tokens: ${problems.join('; ')}`, { data: { problems } });
}

/**
 * Creates an auth hook for users with tokens. A browser asks for name and token; programs send
 * `authorization: Bearer TOKEN`.
 */
export function tokenAuth(users: readonly TokenUser[]): Auth {
  const known = users.map(({ token, ...user }) => ({ user, digest: digestOf(token) }));
  return ({ headers }) => {
    const given = givenIn(headers.get('authorization') ?? '');
    const digest = digestOf(given?.token ?? '');
    // compares all digests, so that the time taken reveals nothing
    const found = known.filter((one) => timingSafeEqual(one.digest, digest));
    const user = found
      .map((one) => one.user)
      .find(({ name }) => given?.name === undefined || given.name === name);
    if (given !== undefined && user !== undefined) return user;
    return new Response('Sign in with your name and token.\n', {
      status: 401,
      headers: {
        'www-authenticate': 'Basic realm="pgqueue", charset="UTF-8"',
        'content-type': 'text/plain; charset=utf-8',
        'cache-control': 'no-store',
      },
    });
  };
}

function givenIn(header: string): { readonly name?: string; readonly token: string } | undefined {
  const [, scheme = '', value = ''] = /^(\w+) +(\S+)$/.exec(header) ?? [];
  if (scheme.toLowerCase() === 'bearer') return { token: value };
  if (scheme.toLowerCase() !== 'basic') return undefined;
  const [name = '', ...token] = Buffer.from(value, 'base64').toString('utf8').split(':');
  return { name, token: token.join(':') };
}

function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
