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
