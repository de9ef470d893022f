import type { Context } from 'hono';
import type { Role } from '../contract.ts';
import type { RemoteInfo } from '../guard/remote.ts';
import type { User } from '../options.ts';

/** Environment of a request. */
export interface Env {
  Bindings: RemoteInfo;
  Variables: {
    /** User of pages and actions. */
    user: User & { readonly role: Role };
    /** User of the HTTP API. */
    caller: User;
    host: string;
  };
}

export type In = Context<Env>;

/** Returns a parameter of the path. */
export function named(c: In, name: string): string {
  return c.req.param(name) ?? '';
}
