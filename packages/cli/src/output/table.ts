import Table from 'cli-table3';
import { oneLine } from './format.ts';

export type Cell = string | number | null;

/** Formats rows as columns under headings: with lines on a terminal, plain for grep and awk otherwise. */
export function table(
  heads: readonly string[],
  rows: readonly (readonly Cell[])[],
  { lines }: { readonly lines: boolean },
): string {
  const cells = rows.map((row) => row.map((cell) => oneLine(String(cell ?? '-'))));
  if (!lines) return plain([heads.map((head) => head.toUpperCase()), ...cells]);
  const drawn = new Table({ head: [...heads], style: { head: ['bold'], border: ['grey'], compact: true } });
  for (const row of cells) drawn.push(row);
  return drawn.toString();
}

/** Formats names and values, one pair a line. */
export function facts(pairs: readonly (readonly [string, Cell])[]): string {
  const width = Math.max(...pairs.map(([name]) => name.length));
  return pairs.map(([name, value]) => `${name.padEnd(width)}  ${oneLine(String(value ?? '-'))}`).join('\n');
}

function plain(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => (row[column] ?? '').length)),
  );
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
