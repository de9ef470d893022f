// CPU time out of /proc: what a process used, and what a server used with all that it forks.
import { readFileSync, readdirSync } from 'node:fs';

/** Of Linux on every machine that Node runs on: the kernel tells times in hundredths of a second. */
const tickMs = 10;

export interface ProcessTimes {
  readonly parent: number;
  /** Its own threads, in milliseconds. */
  readonly ownMs: number;
  /** Its children that have ended. */
  readonly endedMs: number;
}

/** Reads one line of `/proc/PID/stat`; undefined where it is none. */
export function parseStat(text: string): ProcessTimes | undefined {
  // the name, in parentheses, may hold anything
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

/** CPU milliseconds that a process has used; NaN where it can't be seen. */
export function cpuMsOf(pid: number): number {
  const times = timesOf(pid);
  return times === undefined ? NaN : times.ownMs + times.endedMs;
}

/** CPU milliseconds of a server: its own, and those of all its children, also of such that have ended. NaN where it can't be seen. */
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

/** Whether a process of that name is seen here, so that its times are those of the server and not of a stranger on another machine. */
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
