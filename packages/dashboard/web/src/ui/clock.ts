import { useSyncExternalStore } from 'react';

let nowMs = Date.now();
/** How far the database's clock is ahead of the viewer's. */
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

/** The database's time, once a second: one timer, however many times a page shows. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => nowMs);
}

/** Every answer of the server says the time: ages then agree with the database, whatever the viewer's clock says. */
export function setServerTime(serverMs: number): void {
  aheadMs = serverMs - Date.now();
  tick();
}
