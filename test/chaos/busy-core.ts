import { spawn } from 'node:child_process';
import { once } from 'node:events';

/** Slices of a loop without end, which ends with the process that started it. */
const loop = `
  process.stdin.on('end', () => process.exit()).resume();
  (function spin() { for (const end = Date.now() + 20; Date.now() < end; ); setImmediate(spin); })();
`;

/** Keeps one core busy with a process of its own until it is stopped: faults must do no harm on a machine that has other work, too. */
export function startBusyCore(): { readonly stop: () => Promise<void> } {
  const busy = spawn(process.execPath, ['-e', loop], { stdio: ['pipe', 'ignore', 'inherit'] });
  const exited = once(busy, 'exit');
  return {
    stop: async () => {
      busy.stdin.end();
      await exited;
    },
  };
}
