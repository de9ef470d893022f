import { isIPv4, isIPv6 } from 'node:net';
import { Problem } from '../problem.ts';
import type { Settings } from '../options.ts';

/** What a server tells beside the request. */
export interface RemoteInfo {
  /** The address that the connection comes from. */
  readonly remoteAddress?: string | undefined;
}

/**
 * Refuses host names that are not this dashboard's own (a name of somebody else's could be made to lead here, and then its pages
 * are of this origin), and, without an auth hook, whatever does not come from this machine, or through a proxy.
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
  // a proxy on the same machine comes from loopback itself, whomever it speaks for
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
