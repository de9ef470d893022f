import { plainJson, printable, printableWithColors } from './format.ts';
import { table } from './table.ts';
import type { Cell } from './table.ts';
import { redactedJson } from './redact.ts';
import type { Redact } from './redact.ts';

/** Output of a command. Everything is redacted, and control characters are escaped. */
export interface Output {
  readonly json: boolean;
  /** Writes the answer of the command: one JSON document, or text. */
  readonly answer: (value: unknown, text: () => string) => void;
  /** Writes one item of a stream: a line of JSON or of text. */
  readonly line: (value: unknown, text: () => string) => void;
  /** Writes a note to stderr, also with `--json`. */
  readonly note: (text: string) => void;
  /** Shows progress on stderr if that is a terminal. With `lines` it is also written elsewhere, as lines. */
  readonly progress: (text: string, options?: { readonly lines?: boolean }) => void;
  readonly table: (heads: readonly string[], rows: readonly (readonly Cell[])[]) => string;
}

export interface Streams {
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
}

export function createOutput(options: {
  readonly json: boolean;
  readonly redact: Redact;
  readonly lines: boolean;
  readonly streams: Streams;
}): Output {
  const { json, redact, lines, streams } = options;
  const { stdout, stderr } = streams;
  const human = (text: string): string =>
    redact(lines && stdout.isTTY ? printableWithColors(text) : printable(text));
  const machine = (value: unknown, indent?: number): string =>
    plainJson(redactedJson(JSON.stringify(value, null, indent), { redact, indent }));
  let open = false;
  const endProgress = (): void => {
    if (open) stderr.write('\r\u001b[K');
    open = false;
  };
  return {
    json,
    answer: (value, text) => {
      endProgress();
      stdout.write(`${json ? machine(value, 2) : human(text())}\n`);
    },
    line: (value, text) => {
      endProgress();
      stdout.write(`${json ? machine(value) : human(text())}\n`);
    },
    note: (text) => {
      endProgress();
      stderr.write(`${redact(printable(text))}\n`);
    },
    progress: (text, { lines: always = false } = {}) => {
      if (!stderr.isTTY) {
        if (always) stderr.write(`${redact(printable(text))}\n`);
        return;
      }
      open = true;
      stderr.write(`\r\u001b[K${redact(printable(text))}`);
    },
    table: (heads, rows) => table(heads, rows, { lines: lines && stdout.isTTY }),
  };
}
