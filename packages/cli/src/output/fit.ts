import { oneLine } from './format.ts';
import type { Cell } from './table.ts';

/** A column. `right` aligns it to the right; `cut` lets it shrink if a line is too long. */
export interface Column {
  readonly head: string;
  readonly right?: true;
  readonly cut?: true;
}

/** Width below which a column is not shrunk. */
const narrowest = 6;
const gap = 2;

/** Formats rows under headings, the headings first; no line is wider than `width`. */
export function fitted(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  width: number,
): readonly string[] {
  const texts = rows.map((row) => columns.map((_, index) => oneLine(String(row[index] ?? '-'))));
  const widths = columns.map(({ head }, index) =>
    Math.max(lengthOf(head), ...texts.map((row) => lengthOf(row[index] ?? ''))),
  );
  narrow(columns, widths, width);
  const line = (cells: readonly string[]): string => {
    const placed = cells.map((cell, index) => place(cell, widths[index] ?? 0, columns[index]));
    return cutTo(placed.join(' '.repeat(gap)).trimEnd(), width);
  };
  return [line(columns.map(({ head }) => head.toUpperCase())), ...texts.map(line)];
}

/** Shrinks the widest column that may be cut, one place at a time, until the line fits. */
function narrow(columns: readonly Column[], widths: number[], width: number): void {
  const excess = (): number => widths.reduce((sum, each) => sum + each + gap, -gap) - width;
  for (let over = excess(); over > 0; over = excess()) {
    let widest = -1;
    for (const [index, { cut }] of columns.entries()) {
      if (cut === true && (widths[index] ?? 0) > Math.max(narrowest, widths[widest] ?? 0)) widest = index;
    }
    if (widest < 0) return; // the rest is cut at the end of the line
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
}

function place(cell: string, width: number, column: Column | undefined): string {
  const text = cutTo(cell, width);
  const space = ' '.repeat(Math.max(0, width - lengthOf(text)));
  return column?.right === true ? space + text : text + space;
}

/** Cuts text to a width, and marks the cut with `…`. */
export function cutTo(text: string, width: number): string {
  if (lengthOf(text) <= width) return text;
  const kept: string[] = [];
  let used = 0;
  for (const { segment } of segments.segment(text)) {
    used += placesOf(segment);
    if (used > width - 1) break;
    kept.push(segment);
  }
  return width < 1 ? '' : `${kept.join('')}…`;
}

/**
 * Breaks text into lines that are not wider than `width`, between words where that is possible. `lead` stands before
 * the first one; the others begin below its end.
 */
export function wrapped(lead: string, text: string, width: number): readonly string[] {
  const room = Math.max(1, width - lengthOf(lead));
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ').flatMap((long) => piecesOf(long, room))) {
    const longer = line === '' ? word : `${line} ${word}`;
    if (lengthOf(longer) > room) lines.push(line);
    line = lengthOf(longer) > room ? word : longer;
  }
  return [...lines, line].map((each, index) => (index === 0 ? lead : ' '.repeat(lengthOf(lead))) + each);
}

/** Cuts a word that is wider than a line. */
function piecesOf(word: string, width: number): readonly string[] {
  const pieces: string[] = [];
  let piece = '';
  for (const { segment } of segments.segment(word)) {
    if (piece !== '' && lengthOf(piece + segment) > width) {
      pieces.push(piece);
      piece = '';
    }
    piece += segment;
  }
  return [...pieces, piece];
}

const segments = new Intl.Segmenter();

/** Width on a terminal, in cells. */
export function lengthOf(text: string): number {
  // fast path: most names are ASCII
  if (/^[\u0020-\u007e]*$/.test(text)) return text.length;
  let places = 0;
  for (const { segment } of segments.segment(text)) places += placesOf(segment);
  return places;
}

/** Width of a grapheme: 2 for Han, kana, hangul and emoji. */
function placesOf(segment: string): number {
  return /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\uff01-\uff60]/u.test(
    segment,
  )
    ? 2
    : 1;
}
