/**
 * Teardown for jest: `globalTeardown: '@pgqueue/testing/jest-teardown'`. Without it, the server ends with
 * jest.
 */
import { stopServer } from './jest-setup.ts';

/** Called by jest after the run. */
// oxlint-disable-next-line import/no-default-export -- jest asks for it
export default async function teardown(): Promise<void> {
  await stopServer();
}
