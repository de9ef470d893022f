import { readClock, readSchemaVersion } from '@pgqueue/postgres/internal/dashboard';
import type { Role, Session } from '../contract.ts';
import type { Desk, Office } from '../desk.ts';
import { seesPayloads } from '../desk.ts';
import { ownVersion } from '../http/version.ts';
import type { User } from '../options.ts';
import { timeOf } from './wire.ts';

export async function sessionPage(
  { schema }: Office,
  { database }: Desk,
  { user, csrf }: { readonly user: User & { readonly role: Role }; readonly csrf: string },
): Promise<Session> {
  const [now, version] = await Promise.all([readClock(database), readSchemaVersion(database)]);
  return {
    actor: { name: user.name, role: user.role },
    csrf,
    schema,
    schemaVersion: version,
    version: ownVersion(),
    seesPayloads: seesPayloads(user),
    now: timeOf(now),
  };
}
