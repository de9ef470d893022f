/**
 * The part of this package that a heartbeat thread needs: such a thread must not load the rest.
 * @module
 */
export type { Lone, LoneOptions } from './connection/single-connection.ts';
export { openLone } from './connection/single-connection.ts';
export type { Lease } from './calls/lease.ts';
export type { Heartbeat, HeartbeatInput } from './calls/node.ts';
export { heartbeatNode } from './calls/node.ts';
