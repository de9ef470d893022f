import { readFileSync } from 'node:fs';
import { readClock, readSchemaVersion } from '@pgqueue/postgres/internal/dashboard';
import type { Session } from '../contract.ts';
import type { Desk, Office } from '../desk.ts';
import { seesPayloads } from '../desk.ts';
import type { User } from '../options.ts';
import { timeOf } from './wire.ts';

export async function sessionPage(
  { schema }: Office,
  { database }: Desk,
  { user, csrf }: { readonly user: User; readonly csrf: string },
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

function ownVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { readonly version: string }).version;
}
