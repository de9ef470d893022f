import type { HandlerOf } from '@pgqueue/core';
import { fanOut } from '@pgqueue/core';
import type { grow } from './growth-tasks.ts';
import { listed } from './listed.ts';
import { leaf } from './growth-tasks.ts';

/** Adds jobs to its step in the way that `how` names, in a process of its own. */
export const handler: HandlerOf<typeof grow> = async ({ how }, ctx) => {
  switch (how) {
    case 'addJobs':
      return { added: await ctx.addJobs([leaf.job({ n: 1 }), leaf.job({ n: 2 }, { key: 'own' })]) };
    case 'fanOut':
      return fanOut([leaf.job({ n: 1 }), leaf.job({ n: 2 })], { added: true });
    case 'thrown':
      // oxlint-disable-next-line typescript/only-throw-error -- an outcome may be thrown
      throw fanOut([leaf.job({ n: 1 }), leaf.job({ n: 2 })], { added: true });
    case 'wrong':
      return fanOut([leaf.job({ n: 1 }), leaf.job({ n: 'two' } as never)]);
    case 'wrong result':
      return fanOut([leaf.job({ n: 1 })], 'text');
    case 'needs': {
      const needs = ctx.needs as { readonly leaves: AsyncIterable<{ readonly result: unknown }> };
      return { results: (await listed(needs.leaves)).map(({ result }) => result) };
    }
    default:
      return {};
  }
};
