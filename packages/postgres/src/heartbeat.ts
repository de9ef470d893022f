/**
 * What a heartbeat needs, and no more: a thread that only beats must not load the rest.
 * @module
 */
export type { Lone, LoneOptions } from './connection/single-connection.ts';
export { openLone } from './connection/single-connection.ts';
export type { Lease } from './statements/lease.ts';
export type { Heartbeat, HeartbeatInput } from './statements/node.ts';
export { heartbeatNode } from './statements/node.ts';
