import { oneLine } from './format.ts';
import type { Cell } from './table.ts';

/** A column: numbers stand to the right; one that may be cut gives way where the line is too short. */
export interface Column {
  readonly head: string;
  readonly right?: true;
  readonly cut?: true;
}

/** What a column that gives way keeps. */
const narrowest = 6;
const gap = 2;

/** Rows under their heads, none wider than `width`. Heads first. */
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

/** The widest of those that may be cut gives way, again and again. */
function narrow(columns: readonly Column[], widths: number[], width: number): void {
  const excess = (): number => widths.reduce((sum, each) => sum + each + gap, -gap) - width;
  for (let over = excess(); over > 0; over = excess()) {
    let widest = -1;
    for (const [index, { cut }] of columns.entries()) {
      if (cut === true && (widths[index] ?? 0) > Math.max(narrowest, widths[widest] ?? 0)) widest = index;
    }
    if (widest < 0) return; // what is left over is cut at the line's end
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
}

function place(cell: string, width: number, column: Column | undefined): string {
  const text = cutTo(cell, width);
  const space = ' '.repeat(Math.max(0, width - lengthOf(text)));
  return column?.right === true ? space + text : text + space;
}

/** At most so many places; what was cut is marked. */
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

const segments = new Intl.Segmenter();

/** In places of a terminal. */
export function lengthOf(text: string): number {
  // most names are plain
  if (/^[\u0020-\u007e]*$/.test(text)) return text.length;
  let places = 0;
  for (const { segment } of segments.segment(text)) places += placesOf(segment);
  return places;
}

/** Han, kana, hangul and emoji take two. */
function placesOf(segment: string): number {
  return /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\uff01-\uff60]/u.test(
    segment,
  )
    ? 2
    : 1;
}
