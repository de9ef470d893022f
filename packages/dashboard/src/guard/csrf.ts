import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { Problem } from '../problem.ts';

const cookieName = 'pgqueue_csrf';
const header = 'x-pgqueue-csrf';

/**
 * Tokens that every action must send. A token is derived from the user and from a cookie that other sites can
 * neither read nor send.
 */
export interface Csrf {
  /** Returns the token of this user's session, and the cookie to set if the request has none. */
  readonly issue: (
    request: Request,
    user: string,
  ) => { readonly token: string; readonly cookie: string | null };
  /** Checks origin and token of an action. @throws {Problem} `origin`, `csrf` */
  readonly check: (request: Request, host: string, user: string) => void;
}

export function createCsrf({
  secret,
  path,
}: {
  readonly secret: string | undefined;
  readonly path: string;
}): Csrf {
  const key = secret ?? randomBytes(32);
  const tokenOf = (session: string, user: string): string =>
    createHmac('sha256', key).update(`${session}\n${user}`).digest('base64url');
  return {
    issue: (request, user) => {
      const known = sessionOf(request);
      const session = known ?? randomBytes(18).toString('base64url');
      const secure = isSecure(request) ? '; Secure' : '';
      return {
        token: tokenOf(session, user),
        cookie:
          known === undefined
            ? `${cookieName}=${session}; Path=${path === '' ? '/' : path}; HttpOnly; SameSite=Strict${secure}`
            : null,
      };
    },
    check: (request, host, user) => {
      checkOrigin(request, host);
      const session = sessionOf(request);
      const given = request.headers.get(header) ?? '';
      if (session === undefined || !isSame(given, tokenOf(session, user))) {
        throw new Problem(
          'csrf',
          'the action names no valid token of this session: read /api/session anew, and repeat it',
        );
      }
    },
  };
}

/**
 * Refuses requests of other sites to the HTTP API, whose programs have no CSRF token. A request that a cookie alone
 * authenticates must prove its origin, as an action must; a program that sends `authorization` and no header of a
 * browser's need not.
 * @throws {Problem} `origin`
 */
export function checkApiOrigin(request: Request, host: string): void {
  const { headers } = request;
  const byCookie = headers.has('cookie') && !headers.has('authorization');
  if (byCookie || headers.has('origin') || headers.has('sec-fetch-site')) checkOrigin(request, host);
}

/**
 * Refuses requests from other sites. Browsers always send one of these headers; a request without them does
 * not come from a browser that holds the cookie.
 */
function checkOrigin({ headers }: Request, host: string): void {
  const site = headers.get('sec-fetch-site');
  if (site !== null && site !== 'same-origin' && site !== 'none') throw foreign();
  const origin = headers.get('origin');
  if (origin === null) {
    if (site === null) throw foreign();
    return;
  }
  const named = URL.canParse(origin) ? new URL(origin).host : '';
  if (named === '') throw foreign();
  if (named !== hostOf(host)) throw foreign(`: Origin names ${named}, and Host says ${host}${passOn}`);
}

const passOn = '. If a proxy stands before the dashboard, have it pass on the header Host';

/** Normalizes a host as URL does. Either side may include the scheme's default port. */
function hostOf(host: string): string {
  return URL.canParse(`http://${host}`) ? new URL(`http://${host}`).host.replace(/:443$/, '') : host;
}

function foreign(why = ''): Problem {
  return new Problem('origin', `an action must come from the dashboard's own pages${why}`);
}

function sessionOf({ headers }: Request): string | undefined {
  const cookies = headers.get('cookie') ?? '';
  return new RegExp(`(?:^|;\\s*)${cookieName}=([A-Za-z0-9_-]{24})(?:;|$)`).exec(cookies)?.[1];
}

function isSecure({ url, headers }: Request): boolean {
  return url.startsWith('https:') || headers.get('x-forwarded-proto')?.split(',')[0]?.trim() === 'https';
}

function isSame(given: string, wanted: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(wanted)];
  return a.length === b.length && timingSafeEqual(a, b);
}
