import { StringDecoder } from 'node:string_decoder';

/** Longest line that is passed on, in characters. */
const lineMax = 4_096;
/** Most lines that are passed on. */
const linesMax = 1_000;
/** Number of the last characters that {@link Lines.tail} returns. */
const tailMax = 2_000;

/** Lines of a stream, bounded in length and number. */
export interface Lines {
  readonly add: (chunk: Buffer) => void;
  /** Passes on the last line, and how many were left out. */
  readonly end: () => void;
  /** Returns the last characters of the stream, without blanks around them. */
  readonly tail: () => string;
}

/** Cuts a stream into lines. Long lines are cut off, and those beyond the first 1,000 only counted. */
export function createLines(pass: (line: string) => void): Lines {
  const decoder = new StringDecoder('utf8');
  let line = '';
  let passed = 0;
  let leftOut = 0;
  let last = '';

  const through = (text: string): void => {
    if (text === '') return;
    passed += 1;
    if (passed <= linesMax) pass(text.slice(0, lineMax));
    else leftOut += 1;
  };
  const take = (text: string): void => {
    last = (last + text).slice(-tailMax);
    const [first = '', ...rest] = text.split('\n');
    line = (line + first).slice(0, lineMax);
    for (const next of rest) {
      through(line.trimEnd());
      line = next.slice(0, lineMax);
    }
  };
  return {
    add: (chunk) => take(decoder.write(chunk)),
    end: () => {
      take(decoder.end());
      through(line.trimEnd());
      if (leftOut > 0) pass(`${leftOut} more lines are left out`);
    },
    tail: () => last.trim(),
  };
}
