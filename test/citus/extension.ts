import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** Debian's folder of PostgreSQL's versions. */
const versions = '/usr/lib/postgresql';

/** Returns the programs of the newest PostgreSQL here that has the extension Citus; undefined: none has it. */
export function findCitus(): string | undefined {
  if (!existsSync(versions)) return undefined;
  const newestFirst = readdirSync(versions).toSorted((a, b) => Number(b) - Number(a));
  return newestFirst.map((version) => join(versions, version, 'bin')).find(hasCitus);
}

function hasCitus(binaries: string): boolean {
  const config = join(binaries, 'pg_config');
  if (!existsSync(config) || !existsSync(join(binaries, 'initdb'))) return false;
  const shared = execFileSync(config, ['--sharedir'], { encoding: 'utf8' }).trim();
  return existsSync(join(shared, 'extension', 'citus.control'));
}
