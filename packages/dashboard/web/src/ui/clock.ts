import { useSyncExternalStore } from 'react';

let nowMs = Date.now();
/** Difference between the dashboard server's clock and the viewer's, in milliseconds. */
let aheadMs = 0;
let timer: ReturnType<typeof setInterval> | undefined;
const listeners = new Set<() => void>();

function tick(): void {
  nowMs = Date.now() + aheadMs;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(tick, 1_000);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** Returns the server's time, updated once a second. One timer serves all times on a page. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => nowMs);
}

/** Sets the server's time from a live snapshot, so that ages do not depend on the viewer's clock. */
export function setServerTime(serverMs: number): void {
  aheadMs = serverMs - Date.now();
  tick();
}
