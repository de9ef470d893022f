import { isIPv4, isIPv6 } from 'node:net';
import { Problem } from '../problem.ts';
import type { Settings } from '../options.ts';

/** Facts about the connection, which the server provides. */
export interface RemoteInfo {
  /** Remote address of the connection. */
  readonly remoteAddress?: string | undefined;
}

/**
 * Refuses host names that are not the dashboard's own: someone else's name could be pointed here, and their
 * pages would then share its origin (DNS rebinding). Without an auth hook it also refuses requests from other
 * machines and through proxies.
 *
 * @throws {Problem} `host`
 */
export function checkRemote(
  { auth, hosts }: Settings,
  { headers }: Request,
  { host, remoteAddress }: RemoteInfo & { readonly host: string },
): void {
  const named = host.toLowerCase();
  if (hosts !== undefined && !hosts.includes(named) && !hosts.includes(withoutPort(named))) {
    throw new Problem('host', 'this dashboard does not answer to that host name: see its option "hosts"');
  }
  if (auth !== undefined) return;
  if (hosts === undefined && !isLoopbackName(withoutPort(named))) {
    throw new Problem(
      'host',
      'without an auth hook this dashboard answers on loopback alone: open it as http://localhost, or give it the option "auth"',
    );
  }
  if (remoteAddress === undefined) {
    throw new Problem(
      'host',
      'without an auth hook this dashboard must know where a request comes from, and this server does not say: give it the option "auth"',
    );
  }
  if (!isLoopbackAddress(remoteAddress)) {
    throw new Problem(
      'host',
      'without an auth hook this dashboard answers requests from its own machine alone: give it the option "auth"',
    );
  }
  // a proxy on this machine connects from loopback as well, whatever its client's address
  const proxied = proxyHeaders.find((name) => headers.has(name));
  if (proxied !== undefined) {
    throw new Problem(
      'host',
      `without an auth hook this dashboard answers no proxy, and this request has the header "${proxied}": give it the option "auth"`,
    );
  }
}

const proxyHeaders = [
  'forwarded',
  'via',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-real-ip',
];

function withoutPort(host: string): string {
  return host.replace(/:\d+$/, '');
}

export function isLoopbackName(name: string): boolean {
  return (
    name === 'localhost' || name.endsWith('.localhost') || isLoopbackAddress(name.replace(/^\[|\]$/g, ''))
  );
}

export function isLoopbackAddress(address: string): boolean {
  const bare = address.replace(/^\[|\](?::\d+)?$/g, '').replace(/^::ffff:/i, '');
  if (isIPv4(bare)) return bare.startsWith('127.');
  return isIPv6(bare) && bare === '::1';
}
