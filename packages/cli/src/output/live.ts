import type { Screen } from './screen.ts';
import { screenOf } from './screen.ts';

/** The parts of a terminal that a live view uses. */
export interface Terminal {
  readonly input: Pick<NodeJS.ReadStream, 'on' | 'off' | 'resume' | 'pause'> & {
    readonly setRawMode?: (raw: boolean) => unknown;
  };
  readonly output: {
    readonly columns?: number;
    readonly rows?: number;
    readonly write: (text: string) => unknown;
    readonly on: (event: 'resize', listener: () => void) => unknown;
    readonly off: (event: 'resize', listener: () => void) => unknown;
  };
}

export interface LiveOptions {
  readonly terminal: Terminal;
  readonly intervalMs: number;
  /** Reads the data, and returns a function that formats it for a screen. */
  readonly read: () => Promise<(screen: Screen) => readonly string[]>;
  /** Removes from a line what must not reach the terminal. */
  readonly clean: (text: string) => string;
  /** Ends the view when aborted. */
  readonly signal: AbortSignal;
}

/** Switches to the alternate screen, hides the cursor and turns line wrapping off; `leave` reverts that. */
const enter = '\u001b[?1049h\u001b[?25l\u001b[?7l';
const leave = '\u001b[?7h\u001b[?25h\u001b[?1049l';

/** q, Ctrl-C, Ctrl-D and Escape. */
const endKeys: ReadonlySet<string> = new Set(['q', 'Q', '\u0003', '\u0004', '\u001b']);

/**
 * Formats a frame for a single write. Synchronized-update marks keep terminals that know them from showing it
 * half drawn, and lines are overwritten instead of cleared first, which would flicker.
 */
export function frame(lines: readonly string[]): string {
  const drawn = lines.map((line) => `${line}\u001b[K`).join('\r\n');
  return `\u001b[?2026h\u001b[H${drawn}\u001b[J\u001b[?2026l`;
}

/** Redraws until `q`, Ctrl-C, Ctrl-D, Escape or the signal. Restores the terminal even after an error. */
export async function showLive({ terminal, intervalMs, read, clean, signal }: LiveOptions): Promise<void> {
  const { input, output } = terminal;
  const done = Promise.withResolvers<void>();
  let lines: (screen: Screen) => readonly string[] = () => ['reading'];
  let problem: string | undefined;

  const draw = (): void => {
    const { columns, rows } = screenOf(output);
    const shown = lines({ columns, rows: problem === undefined ? rows : rows - 1 });
    output.write(frame((problem === undefined ? shown : [problem, ...shown]).map(clean)));
  };
  const restore = once(() => {
    output.write(leave);
    input.setRawMode?.(false);
    input.pause();
  });
  const key = (pressed: Buffer | string): void => {
    if (endKeys.has(String(pressed))) done.resolve();
  };
  const end = (): void => done.resolve();

  process.on('exit', restore);
  signal.addEventListener('abort', end);
  input.setRawMode?.(true);
  input.on('data', key);
  input.resume();
  output.on('resize', draw);
  output.write(enter);
  try {
    if (signal.aborted) end();
    const state = { over: signal.aborted };
    void done.promise.then(() => (state.over = true));
    while (!state.over) {
      try {
        lines = await Promise.race([read(), done.promise.then(() => lines)]);
        problem = undefined;
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        problem = `not read since: ${why.split('\n')[0]}`;
      }
      if (state.over) break;
      draw();
      await pause(intervalMs, done.promise);
    }
  } finally {
    input.off('data', key);
    output.off('resize', draw);
    signal.removeEventListener('abort', end);
    restore();
    process.off('exit', restore);
  }
}

async function pause(ms: number, ended: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([late, ended]);
  clearTimeout(timer);
}

function once(act: () => void): () => void {
  let acted = false;
  return () => {
    if (acted) return;
    acted = true;
    act();
  };
}
