import { readFileSync, writeFileSync } from 'node:fs';
import type { Result } from './run.ts';
import { cases } from './run.ts';

const marks: Readonly<Record<Result['kind'], string>> = {
  passed: '✓',
  failed: '✗',
  'not offered': '–',
  skipped: 'skipped',
};

/** Returns a Markdown table: a row for each case, a column for each client. */
export function table(all: ReadonlyMap<string, ReadonlyMap<string, Result>>): string {
  const clients = [...all.keys()];
  const rows = cases
    .filter(({ name }) => clients.some((client) => all.get(client)?.has(name)))
    .map(({ name }) => [
      `\`${name}\``,
      ...clients.map((client) => {
        const result = all.get(client)?.get(name);
        return result === undefined ? '' : marks[result.kind];
      }),
    ]);
  const lines = [['case', ...clients], ['---', ...clients.map(() => '---')], ...rows];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

const page = new URL('../../docs/guides/protocol.md', import.meta.url);
const place = /(?<=<!-- results -->\n)[^]*?(?=<!-- \/results -->)/;

/** Returns the table in the guide, and writes another one in its place. */
export const guideTable = {
  read: (): string => place.exec(readFileSync(page, 'utf8'))?.[0].trim() ?? '',
  write: (text: string): void =>
    writeFileSync(
      page,
      readFileSync(page, 'utf8').replace(place, () => `\n${text}\n\n`),
    ),
};

/** Returns the columns of a table by the name of their client: cells from top to bottom. */
export function columnsOf(text: string): ReadonlyMap<string, readonly string[]> {
  const rows = text
    .split('\n')
    .filter((line) => !/^[| -]*$/.test(line))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
  const [head = []] = rows;
  return new Map(head.map((name, index) => [name, rows.slice(1).map((cells) => cells[index] ?? '')]));
}
