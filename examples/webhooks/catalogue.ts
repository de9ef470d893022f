// A flow beside the webhooks: a catalogue is imported page by page, and summed up when all pages are in.
import { setTimeout as delay } from 'node:timers/promises';
import { defineTask, fanOut, flow, implement } from '@pgqueue/core';
import { z } from 'zod';

export const pages = 200;
const itemsOfPage = 25;
export const items = pages * itemsOfPage;

/** One page of the catalogue. The first one knows how many others there are, and adds them to its step. */
const importPage = defineTask({
  name: 'import-page',
  payload: z.object({ page: z.int() }),
  result: z.object({ items: z.int() }),
  timeout: '10s',
});

/** Runs once, when no page is left. */
const sumUp = defineTask({
  name: 'sum-up',
  payload: z.object({}),
  needs: { pages: importPage },
  result: z.object({ pages: z.int(), items: z.int() }),
});

export const importCatalogue = flow('import-catalogue')
  .step('pages', importPage.job({ page: 0 }))
  .step('sum', sumUp.job({}), { needs: ['pages'] });

export const catalogueHandlers = [
  implement(importPage, async ({ page }, { signal }) => {
    await delay(20, undefined, { signal });
    const others = Array.from({ length: pages - 1 }, (_, n) => importPage.job({ page: n + 1 }));
    return page === 0 ? fanOut(others, { items: itemsOfPage }) : { items: itemsOfPage };
  }),
  implement(sumUp, async (_, ctx) => {
    const sum = { pages: 0, items: 0 };
    for await (const { result } of ctx.needs.pages) {
      sum.pages += 1;
      sum.items += result.items;
    }
    return sum;
  }),
];
