import { listAudit } from '@pgqueue/postgres/internal/dashboard';
import type { AuditPage } from '../contract.ts';
import type { Desk } from '../desk.ts';
import { seesPayloads } from '../desk.ts';
import type { Parameters } from '../http/parameters.ts';
import { jsonOf, timeOf } from './wire.ts';

export async function auditPage(desk: Desk, query: Parameters): Promise<AuditPage> {
  const [actor, action, after] = [
    query.text('actor', 200),
    query.text('action', 100),
    query.text('after', 19),
  ];
  const limit = query.limit();
  if (after !== undefined && !/^\d{1,18}$/.test(after))
    query.fail('after is no cursor: give the "next" of the page before');
  query.done();
  const { items, next } = await listAudit(desk.database, {
    limit,
    whole: seesPayloads(desk),
    ...(actor === undefined ? {} : { actor }),
    ...(action === undefined ? {} : { action }),
    ...(after === undefined ? {} : { after }),
  });
  return {
    items: items.map((line) => ({
      ...line,
      at: timeOf(line.at),
      details: jsonOf(line.details),
      result: jsonOf(line.result),
    })),
    next,
  };
}
