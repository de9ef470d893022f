import { spawn } from 'node:child_process';
import type { ChildProcessByStdio } from 'node:child_process';
import type { Writable } from 'node:stream';

/** Process group of a running executable. */
export interface GroupGuard {
  readonly kill: (signal: NodeJS.Signals) => void;
  /** Kills what is left of the group, and forgets it. May be called again. */
  readonly end: () => void;
}

// A shell reads the groups of this process from a pipe, and kills them when the pipe ends: this process may be
// killed by a signal that no handler sees. In a session of its own, so that neither Ctrl-C nor a kill of the
// worker's own group ends it first.
const script = `
  groups=' '
  while read -r op group; do
    case $op in
      +) groups="$groups$group " ;;
      -) groups="\${groups%% $group *} \${groups#* $group }" ;;
    esac
  done
  for group in $groups; do kill -9 "-$group" 2>/dev/null; done`;

const groups = new Set<number>();
let shell: ChildProcessByStdio<Writable, null, null> | undefined;

/**
 * Starts the shell, if it is not there. Call it before a process is started: one whose worker is killed before
 * it is guarded goes on, but finds no payload on its stdin.
 */
export function readyGuard(): void {
  shell ??= startShell();
}

/** Guards the group of a process that was just started as the leader of one. */
export function guardGroup(pid: number): GroupGuard {
  readyGuard();
  groups.add(pid);
  shell?.stdin.write(`+ ${pid}\n`);
  let ended = false;
  const kill = (signal: NodeJS.Signals): void => {
    if (ended) return; // the number may be another group's by now
    try {
      process.kill(-pid, signal);
    } catch {
      // none is left
    }
  };
  return {
    kill,
    end: () => {
      if (ended) return;
      kill('SIGKILL');
      ended = true;
      groups.delete(pid);
      shell?.stdin.write(`- ${pid}\n`);
    },
  };
}

function startShell(): ChildProcessByStdio<Writable, null, null> {
  const started = spawn('/bin/sh', ['-c', script], {
    cwd: '/',
    env: {},
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  const gone = (): void => {
    if (shell === started) shell = undefined; // the next group starts another one
  };
  started.once('exit', gone).once('error', gone);
  started.stdin.on('error', gone);
  started.unref();
  (started.stdin as Writable & { readonly unref?: () => void }).unref?.();
  for (const group of groups) started.stdin.write(`+ ${group}\n`);
  return started;
}
