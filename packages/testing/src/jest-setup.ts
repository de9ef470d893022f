/**
 * Setup for jest: `globalSetup: '@pgqueue/testing/jest-setup'` starts one server for the run, which all its
 * files and workers share.
 */
import type { TestServer } from './database/server.ts';
import { startTestServer } from './database/server.ts';

const kept = globalThis as { [running]?: TestServer | undefined };
const running: unique symbol = Symbol.for('pgqueue.testing.server');

/** Called by jest before the run. */
// oxlint-disable-next-line import/no-default-export -- jest asks for it
export default async function setup(): Promise<void> {
  kept[running] ??= await startTestServer();
}

/** Stops the server; called by the teardown. */
export async function stopServer(): Promise<void> {
  const server = kept[running];
  kept[running] = undefined;
  await server?.stop();
}
