import { setTimeout as delay } from 'node:timers/promises';
import { afterAll } from 'vitest';

/**
 * Kinds of resources that a test file must not leave behind. Pipes and the like belong to the test runner.
 */
const watched = ['Timeout', 'TCPSocketWrap', 'TCPServerWrap', 'ProcessWrap'] as const;
const graceMs = 15_000;
const pollMs = 20;

type Counts = Readonly<Record<(typeof watched)[number], number>>;

function countResources(): Counts {
  const active = process.getActiveResourcesInfo();
  const count = (kind: string): number => active.filter((resource) => resource === kind).length;
  return {
    Timeout: count('Timeout'),
    TCPSocketWrap: count('TCPSocketWrap'),
    TCPServerWrap: count('TCPServerWrap'),
    ProcessWrap: count('ProcessWrap'),
  };
}

function leaksSince(baseline: Counts): readonly string[] {
  const now = countResources();
  return watched
    .filter((kind) => now[kind] > baseline[kind])
    .map((kind) => `${now[kind] - baseline[kind]} ${kind}`);
}

// Taken before any hook runs: within hooks, the runner has timers of its own, which come and go.
const baseline = countResources();

// A setup file's hook is registered first, and therefore runs last.
afterAll(async () => {
  const deadline = Date.now() + graceMs;
  let leaks = leaksSince(baseline);
  while (leaks.length > 0 && Date.now() < deadline) {
    await delay(pollMs);
    leaks = leaksSince(baseline);
  }
  if (leaks.length > 0) throw new Error(`the test file left behind: ${leaks.join(', ')}`);
});
