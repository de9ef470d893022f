// Appends to a history: one file for each thread of each process, so that no thread waits for another.
import { mkdirSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { threadId } from 'node:worker_threads';
import type { HistoryEntry } from './checker/history.ts';

/**
 * Reads the machine's monotonic clock: one clock for all processes, even for one whose wall clock is wrong.
 */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

export type Write = (entry: HistoryEntry, at?: number) => void;

/**
 * Opens a history for appending. Each line is written at once, so it outlives a process that is killed right
 * after.
 */
export function openHistory(folder: string, by: string): Write {
  mkdirSync(folder, { recursive: true });
  const file = openSync(join(folder, `${by}-${process.pid}-${threadId}.jsonl`), 'a');
  return (entry, at = monotonicMs()) => {
    writeSync(file, `${JSON.stringify({ at: Math.round(at * 1e3) / 1e3, by, ...entry })}\n`);
  };
}
