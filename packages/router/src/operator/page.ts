import { PgQueueError } from '@pgqueue/core';
import type { Page } from '@pgqueue/postgres';
import type { Answer } from './every.ts';
import { valuesOf } from './every.ts';

/** An installation that did not answer. */
export interface Unreachable {
  readonly installation: string;
  readonly message: string;
}

/** A page over all installations. */
export interface RouterPage<Item> extends Page<Item> {
  /** Lists installations that did not answer: their items are missing. */
  readonly unreachable: readonly Unreachable[];
}

/**
 * Merges pages after one cursor into one page, by id: newest or oldest first. Exact: each has the first `limit` of its
 * installation, so the first `limit` of all are among them.
 * @throws the error of an installation, if none answered, or if it refused the question
 */
export function pageOver<Item extends { readonly id: string }>(
  answers: readonly Answer<Page<Item>>[],
  { limit, order }: { readonly limit: number; readonly order: 'newest' | 'oldest' },
): RouterPage<Item> {
  const failed = answers.flatMap((answer) => (answer.ok ? [] : [answer]));
  const refused = failed.find(({ error }) => error instanceof PgQueueError && error.code === 'configuration');
  if (refused !== undefined) throw refused.error;
  const pages = valuesOf(answers);
  const [first] = failed;
  if (pages.length === 0 && first !== undefined) throw first.error;
  const sign = order === 'newest' ? -1 : 1;
  const items = pages
    .flatMap((page) => page.items)
    .toSorted((a, b) => sign * (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
  const shown = items.slice(0, limit);
  const more = items.length > limit || pages.some(({ next }) => next !== null);
  return {
    items: shown,
    next: more ? (shown.at(-1)?.id ?? null) : null,
    unreachable: failed.map(({ installation, error }) => ({ installation, message: error.message })),
  };
}
