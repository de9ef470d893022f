import { randomUUID } from 'node:crypto';
import { resetNode } from '@pgqueue/postgres/internal';
import { expect } from 'vitest';
import type { Ground } from '../sql/support.ts';

/** Jobs that a node took with it when it died. */
export async function crashed(ground: Ground, count: number): Promise<readonly string[]> {
  const node = await ground.node(`died ${randomUUID()}`);
  const ids: string[] = [];
  for (let n = 0; n < count; n += 1) ids.push(await ground.insert());
  await ground.dispatch(ids);
  expect(await ground.claim(node)).toHaveLength(count);
  await resetNode(ground.database, node.id);
  return ids;
}

export async function ready(ground: Ground): Promise<string> {
  const id = await ground.insert();
  await ground.dispatch([id]);
  return id;
}

/** As if its lease had begun earlier. */
export const age = (ground: Ground, id: unknown, by: string): Promise<unknown> =>
  ground.sql(`update pgqueue.work_queue set started = started - $2::interval where id = $1`, [id, by]);
