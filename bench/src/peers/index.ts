import type { Peer } from './peer.ts';

/** Loads each peer only when it is used, so that a peer's worker process holds no other peer's code. */
const loaders: Readonly<Record<string, () => Promise<{ readonly peer: Peer }>>> = {
  pgqueue: () => import('./pgqueue.ts'),
  table: () => import('./table.ts'),
  'graphile-worker': () => import('./graphile-worker.ts'),
  'pg-boss': () => import('./pg-boss.ts'),
  bullmq: () => import('./bullmq.ts'),
  'bullmq-postgres': () => import('./bullmq-postgres.ts'),
};

export const peerNames: readonly string[] = Object.keys(loaders);

/** @throws if there is no peer of that name */
export async function loadPeer(name: string): Promise<Peer> {
  const load = loaders[name];
  if (load === undefined) throw new Error(`there is no peer ${name}; there are ${peerNames.join(', ')}`);
  return (await load()).peer;
}
