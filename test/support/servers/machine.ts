// The machine's part of the fault tests: Debian's binaries, a user that is not root, and temporary folders.
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

export const binaries = '/usr/lib/postgresql/15/bin';

export interface Identity {
  readonly uid: number;
  readonly gid: number;
}

/** Returns the user that servers run as: none of them starts as root. */
export function serverIdentity(): Identity | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const ask = (flag: string): number => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  return { uid: ask('-u'), gid: ask('-g') };
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs a program to its end, as the servers' user. @throws if it fails, with its output */
export async function run(
  file: string,
  args: readonly string[],
  { env = {} }: RunOptions = {},
): Promise<string> {
  const options = { ...serverIdentity(), cwd: '/', env: { ...process.env, LC_ALL: 'C', ...env } };
  const { stdout } = await promisify(execFile)(file, [...args], options);
  return stdout;
}

export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  const closed = once(probe, 'close');
  probe.close();
  await closed;
  if (address === null || typeof address === 'string') throw new Error('no free port');
  return address.port;
}

/**
 * A folder for servers. It goes when this process ends, in whatever way, together with its files, its mounts
 * and the processes that still run from it.
 */
export interface Base {
  readonly folder: string;
  /** Makes a folder in it that the servers' user owns. */
  readonly make: (name: string) => string;
  /** Registers a process that must not outlive this one. */
  readonly guard: (name: string, pid: number) => void;
  /**
   * Mounts a file system of `bytes` bytes, and returns its folder. @throws if the machine does not allow it
   */
  readonly mount: (name: string, bytes: number) => string;
  readonly remove: () => Promise<void>;
}

// A shell waits for the end of this process: an exit hook would not survive a SIGKILL. It is detached, so
// that Ctrl-C does not end it first.
const reap = `
  cat >/dev/null
  for pid in $(cat "$1"/pids/* "$1"/*/postmaster.pid.kept 2>/dev/null) $(head -qn 1 "$1"/*/postmaster.pid 2>/dev/null); do
    [ "$pid" -gt 1 ] && kill -KILL "$pid" 2>/dev/null
  done
  for file in "$1"/mounts/*; do [ -f "$file" ] && { umount -l "$(cat "$file")" || sudo -n umount -l "$(cat "$file")"; }; done
  for n in 1 2 3 4 5 6 7 8 9 10; do rm -rf "$1" 2>/dev/null && break; sleep 0.1; done`;

export function createBase(): Base {
  const folder = mkdtempSync(join(tmpdir(), 'pgqueue-servers-'));
  const identity = serverIdentity();
  const own = (path: string): string => {
    if (identity !== undefined) chownSync(path, identity.uid, identity.gid);
    return path;
  };
  own(folder);
  for (const name of ['pids', 'mounts']) mkdirSync(join(folder, name));
  const reaper = spawn('sh', ['-c', reap, 'sh', folder], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  reaper.unref();
  const make = (name: string): string => {
    const path = join(folder, name);
    mkdirSync(path, { recursive: true, mode: 0o700 });
    chmodSync(path, 0o700);
    return own(path);
  };
  return {
    folder,
    make,
    guard: (name, pid) => writeFileSync(join(folder, 'pids', name), `${pid}\n`),
    mount: (name, bytes) => {
      const path = make(name);
      const [file = '', ...prefix] = serverIdentity() === undefined ? ['sudo', '-n', 'mount'] : ['mount'];
      const owner = `uid=${process.getuid?.() ?? 0},gid=${process.getgid?.() ?? 0}`;
      const options = `size=${bytes},${owner}`;
      execFileSync(file, [...prefix, '-t', 'tmpfs', '-o', options, 'tmpfs', path], { stdio: 'pipe' });
      writeFileSync(join(folder, 'mounts', name), path);
      chmodSync(path, 0o700);
      own(path);
      return path;
    },
    remove: async () => {
      if (reaper.exitCode === null) {
        const exited = once(reaper, 'exit');
        reaper.ref(); // nothing else may keep this process waiting
        reaper.stdin.end();
        await exited;
      }
      if (existsSync(folder)) await rm(folder, { recursive: true, force: true });
    },
  };
}

/** True if the process exists. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
