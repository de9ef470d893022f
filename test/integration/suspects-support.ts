import { randomUUID } from 'node:crypto';
import { resetNode } from '@pgqueue/postgres';
import { expect } from 'vitest';
import type { Ground, Member } from './database-support.ts';

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

export const makesRoom = async (ground: Ground, node: Member): Promise<unknown> =>
  (
    await ground.sql(
      `select alone, alone_ms from pgqueue.node where id = $1 and alone_until > clock_timestamp()`,
      [node.id],
    )
  )[0];
