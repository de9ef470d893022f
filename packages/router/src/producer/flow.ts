import type { AnyFlow, StepsOf } from '@pgqueue/core';
import type { FlowHandleOf } from '@pgqueue/producer';
import { flowIdOf } from '@pgqueue/producer/internal';
import type { Member } from '../installations/member.ts';
import { findIn, lookUpOrder, untilAborted } from './find.ts';
import type { Producers } from './members.ts';

/** A flow by its id, in the installation that has it: a flow does not move. */
export function flowIn<Of extends AnyFlow>(
  members: readonly Member[],
  producers: Producers,
  flowId: string,
): FlowHandleOf<StepsOf<Of>> {
  const id = flowIdOf(flowId);
  const order = lookUpOrder(members, id);
  return {
    id,
    ended: (options) =>
      untilAborted(
        options,
        findIn(order, (member) => producers.plain(member).flow(id).ended(options)),
      ),
    results: async function* results(step) {
      const { first, rest } = await findIn(order, async (member) => {
        const all = producers.plain(member).flow<Of>(id).results(step)[Symbol.asyncIterator]();
        return { first: await all.next(), rest: all };
      });
      for (let next = first; next.done !== true; next = await rest.next()) yield next.value;
    },
  };
}
