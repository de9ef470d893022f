import type { JobOptions } from '@pgqueue/core';
import type { Member } from '../installations/member.ts';
import type { Routes } from '../route/routes.ts';

/** Returns the home of a job or a flow. */
export type Spread = (options: Partial<Pick<JobOptions, 'key' | 'id' | 'uniqueKey'>>, name: string) => Member;

/**
 * Creates the function that says where a job goes. With a key: to the home of the key. Without one: by its unique key,
 * so that it stays unique; by its id, if the caller chose that, so that another enqueue of it finds the first; in turn
 * otherwise, among those that are not down.
 * @param members the active ones
 */
export function createSpread(members: readonly Member[], routes: Routes): Spread {
  let turn = 0;
  const inTurn = (): Member => {
    const up = members.filter((member) => !member.isDown());
    const among = up.length === 0 ? members : up;
    turn = (turn + 1) % among.length;
    return among[turn] ?? routes.home('');
  };
  return ({ key, id, uniqueKey }, name) => {
    if (typeof key === 'string' && key !== '') return routes.home(key);
    const unique = typeof uniqueKey === 'object' ? uniqueKey.key : uniqueKey;
    if (typeof unique === 'string') return routes.home(`\n${name}\n${unique}`);
    return typeof id === 'string' ? routes.home(`\n${id.toLowerCase()}`) : inTurn();
  };
}
