/**
 * Setup for vitest: `globalSetup: ['@pgqueue/testing/vitest-setup']` starts one server for the run, which all
 * its files and workers share.
 */
import { startTestServer } from './database/server.ts';

/** Called by vitest before the run. Vitest calls the returned function afterwards. */
export async function setup(): Promise<() => Promise<void>> {
  const server = await startTestServer();
  return () => server.stop();
}
