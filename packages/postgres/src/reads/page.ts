import { PgQueueError } from '@pgqueue/core';

/** One page of a listing. `next` is the `after` of the next page; null: this was the last page. */
export interface Page<Item> {
  readonly items: readonly Item[];
  readonly next: string | null;
}

export const pageMax = 1_000;

/**
 * Checks that filters are single texts. Parsers of query strings give a list if a name comes twice, which
 * would be another question.
 * @throws {PgQueueError} `configuration`
 */
export function checkTexts(filter: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(filter)) {
    const isText = typeof value === 'string' && !value.includes('\u0000') && value.isWellFormed();
    if (value !== undefined && !isText) {
      throw new PgQueueError('configuration', `${name} must be a text without NUL or lone surrogates`);
    }
  }
}

/** @throws {PgQueueError} `configuration` */
export function checkLimit(limit: number): number {
  if (Number.isInteger(limit) && limit >= 1 && limit <= pageMax) return limit;
  throw new PgQueueError('configuration', `limit must be a whole number from 1 to ${pageMax}, not ${limit}`);
}

/** Cuts a page out of `limit` + 1 requested rows: the extra row only says that there are more. */
export function pageOf<Row, Item>(
  rows: readonly Row[],
  limit: number,
  { toItem, cursor }: { readonly toItem: (row: Row) => Item; readonly cursor: (row: Row) => string },
): Page<Item> {
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  return {
    items: shown.map(toItem),
    next: rows.length > limit && last !== undefined ? cursor(last) : null,
  };
}

export function badCursor(after: string): PgQueueError {
  return new PgQueueError(
    'configuration',
    `after: ${JSON.stringify(after)} is no cursor; give the "next" of the page before`,
  );
}
