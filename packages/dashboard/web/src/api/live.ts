import type { QueryClient } from '@tanstack/react-query';
import { useQuery } from '@tanstack/react-query';
import { useSyncExternalStore } from 'react';
import type { BulkRun, LiveSnapshot } from '../../../src/contract.ts';
import { setServerTime } from '../ui/clock.ts';
import { address } from './client.ts';

/** State of the live connection. */
export type Freshness =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'live' }
  | { readonly kind: 'paused' }
  | { readonly kind: 'reconnecting' }
  | { readonly kind: 'trouble'; readonly message: string };

const silenceMs = 12_000;
const firstPauseMs = 1_000;
const longestPauseMs = 15_000;

let freshness: Freshness = { kind: 'connecting' };
let source: EventSource | undefined;
let pauseMs = firstPauseMs;
let timer: ReturnType<typeof setTimeout> | undefined;
let paused = false;
let cache: QueryClient | undefined;
let hasStream = true;
const listeners = new Set<() => void>();

function turn(next: Freshness): void {
  freshness = next;
  for (const listener of listeners) listener();
}

function close(): void {
  clearTimeout(timer);
  source?.close();
  source = undefined;
}

/** Reconnects after a refusal or 12 s of silence; the pause doubles each time, up to 15 s. */
function again(): void {
  close();
  turn({ kind: 'reconnecting' });
  timer = setTimeout(open, pauseMs);
  pauseMs = Math.min(longestPauseMs, pauseMs * 2);
}

function heard(): void {
  pauseMs = firstPauseMs;
  clearTimeout(timer);
  timer = setTimeout(again, silenceMs);
}

function open(): void {
  close();
  if (paused || document.hidden || cache === undefined) return;
  if (!hasStream) return turn({ kind: 'live' });
  source = new EventSource(address('live'));
  timer = setTimeout(again, silenceMs);
  // the browser reconnects by itself, unless the server refused the request
  source.addEventListener('error', () => {
    if (source?.readyState === EventSource.CLOSED) again();
    else turn({ kind: 'reconnecting' });
  });
  source.addEventListener('snapshot', ({ data }: MessageEvent<string>) => onSnapshot(data));
  source.addEventListener('bulk', ({ data }: MessageEvent<string>) => {
    heard();
    const run = JSON.parse(data) as BulkRun;
    cache?.setQueryData(['bulk', run.id], run);
    if (run.state !== 'running') refresh();
  });
  source.addEventListener('changed', () => {
    heard();
    refresh();
  });
  source.addEventListener('trouble', ({ data }: MessageEvent<string>) => {
    clearTimeout(timer);
    turn({ kind: 'trouble', message: (JSON.parse(data) as { message: string }).message });
  });
}

function onSnapshot(data: string): void {
  heard();
  const snapshot = JSON.parse(data) as LiveSnapshot;
  setServerTime(Date.parse(snapshot.at));
  cache?.setQueryData(['live'], snapshot);
  if (freshness.kind !== 'live') {
    // catches up on changes missed in the meantime
    if (freshness.kind !== 'connecting') refresh();
    turn({ kind: 'live' });
  }
}

/** Refreshes everything on the page except queries that only a click may start. */
function refresh(): void {
  void cache?.invalidateQueries({ predicate: ({ queryKey }) => !still.has(String(queryKey[0])) });
}

const still: ReadonlySet<string> = new Set(['live', 'bulk', 'session', 'doctor', 'explain']);

/**
 * Opens one connection for the whole page, and closes it while the page is hidden: a browser allows only six
 * to a server. Without a stream, each answer renews itself at its interval, until updates are paused.
 */
export function startLive(client: QueryClient, given: { readonly hasStream: boolean }): void {
  cache = client;
  hasStream = given.hasStream;
  document.addEventListener('visibilitychange', () => (document.hidden ? close() : open()));
  open();
}

/** Pauses or resumes all updates. */
export function setPaused(wanted: boolean): void {
  paused = wanted;
  if (wanted) {
    close();
    turn({ kind: 'paused' });
    return;
  }
  pauseMs = firstPauseMs;
  turn({ kind: 'connecting' });
  open();
  refresh();
}

export function useFreshness(): Freshness {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => freshness,
  );
}

/** Returns the newest snapshot; undefined before the first one. */
export function useLive(): LiveSnapshot | undefined {
  const { data } = useQuery<LiveSnapshot>({
    queryKey: ['live'],
    queryFn: () => Promise.reject(new Error('snapshots come by themselves')),
    enabled: false,
    staleTime: Infinity,
    gcTime: Infinity,
  });
  return data;
}

/** Returns the refresh interval of a page; false while updates are paused. */
export function useEvery(ms: number): number | false {
  return useFreshness().kind === 'paused' ? false : ms;
}
