import { setTimeout as delay } from 'node:timers/promises';

/** Waits until `probe` gives something, checking often; fails after `timeoutMs`, longer than anything takes on a busy machine. */
export async function until<Found>(
  what: string,
  probe: () => Promise<Found | undefined | false> | Found | undefined | false,
  timeoutMs = 150_000,
): Promise<Found> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const found = await probe();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > deadline) throw new Error(`not within ${timeoutMs} ms: ${what}`);
    await delay(5);
  }
}
