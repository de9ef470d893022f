import { defaultSettings, readSettings } from '@pgqueue/postgres/internal/dashboard';
import type { QueueRow, Queues } from '../contract.ts';
import type { Desk, Office } from '../desk.ts';
import type { Parameters } from '../http/parameters.ts';
import { depthsOf, timeOf } from './wire.ts';

const queuesMax = 500;
const nothing = {
  exact: true,
  delayed: 0,
  pending: 0,
  ready: 0,
  running: 0,
  dead: 0,
  oldestMs: null,
  claimAgeMs: null,
  retryRate: null,
};

/**
 * Lists queues. Settings are read for each request, so that a change shows at once; depths come from the
 * shared status.
 */
export async function queuesPage(office: Office, { database }: Desk, query: Parameters): Promise<Queues> {
  const isWanted = query.namePart();
  query.done();
  const [status, configured] = await Promise.all([office.status(), readSettings(database)]);
  const known = new Map(status.queues.map((queue) => [queue.queue, queue]));
  const names = [...new Set([...known.keys(), ...configured.keys()])].filter(isWanted).toSorted();
  const rows = names.slice(0, queuesMax).map((queue): QueueRow => {
    const { settings = defaultSettings, updated = null } = configured.get(queue) ?? {};
    const now = known.get(queue);
    return {
      queue,
      settings,
      configured: updated !== null,
      updated: timeOf(updated),
      now: depthsOf(now ?? nothing),
      held: now?.held ?? null,
    };
  });
  return { at: new Date().toISOString(), queues: rows, more: names.length > queuesMax };
}
