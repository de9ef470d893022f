// CPU time from /proc: of one process, and of a server with all the processes it forked.
import { readFileSync, readdirSync } from 'node:fs';

/** Kernel clock tick, in milliseconds. Linux uses 100 ticks a second on every machine that Node runs on. */
const tickMs = 10;

export interface ProcessTimes {
  readonly parent: number;
  /** CPU time of its own threads, in milliseconds. */
  readonly ownMs: number;
  /** CPU time of its children that have ended, in milliseconds. */
  readonly endedMs: number;
}

/** Parses one line of `/proc/PID/stat`; undefined if the text is not such a line. */
export function parseStat(text: string): ProcessTimes | undefined {
  // the process name, in parentheses, may contain spaces and parentheses
  const fields = text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  const [parent, user, system, endedUser, endedSystem] = [1, 11, 12, 13, 14].map((at) => fields[at] ?? NaN);
  if (parent === undefined || user === undefined || system === undefined) return undefined;
  if (endedUser === undefined || endedSystem === undefined || Number.isNaN(endedSystem)) return undefined;
  return { parent, ownMs: (user + system) * tickMs, endedMs: (endedUser + endedSystem) * tickMs };
}

function timesOf(pid: number): ProcessTimes | undefined {
  try {
    return parseStat(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return undefined;
  }
}

/** CPU milliseconds used by a process and its ended children; NaN if /proc does not show it. */
export function cpuMsOf(pid: number): number {
  const times = timesOf(pid);
  return times === undefined ? NaN : times.ownMs + times.endedMs;
}

/**
 * CPU milliseconds used by a server and all its children, ended ones included; NaN if /proc does not show it.
 */
export function serverCpuMs(pid: number | undefined): number {
  if (pid === undefined) return NaN;
  const server = timesOf(pid);
  if (server === undefined) return NaN;
  const children = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => timesOf(Number(name)) ?? [])
    .filter(({ parent }) => parent === pid);
  return children.reduce((sum, { ownMs, endedMs }) => sum + ownMs + endedMs, server.ownMs + server.endedMs);
}

/**
 * Reports whether this machine runs a process of that name under that pid. A server on another machine has a
 * pid, too, which may belong to an unrelated process here.
 */
export function isProcess(pid: number, name: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'utf8').trim().startsWith(name);
  } catch {
    return false;
  }
}

export function parentOf(pid: number): number | undefined {
  return timesOf(pid)?.parent;
}
