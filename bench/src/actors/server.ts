import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startEmbedded } from '@pgqueue/postgres/testing';
import { withClient } from '../peers/sql.ts';
import { isProcess, parentOf } from './processes.ts';

/** The PostgreSQL server of a run. */
export interface Server {
  readonly adminUrl: string;
  readonly version: string;
  /** Settings that differ from PostgreSQL's own defaults. */
  readonly settings: Readonly<Record<string, string>>;
  /** Pid of the postmaster, if the server runs on this machine. */
  readonly pid: number | undefined;
  readonly stop: () => Promise<void>;
}

/**
 * Connects to the given server, or starts PostgreSQL 18 with default settings in a temporary folder. Throws
 * if fsync is off.
 */
export async function openServer(databaseUrl: string | undefined): Promise<Server> {
  if (databaseUrl !== undefined) {
    return { ...(await factsOf(databaseUrl)), adminUrl: databaseUrl, stop: () => Promise.resolve() };
  }
  const data = mkdtempSync(join(tmpdir(), 'pgqueue-bench-data-'));
  const server = await startEmbedded({ data });
  const stop = async (): Promise<void> => {
    await server.stop();
    rmSync(data, { recursive: true, force: true });
  };
  try {
    return { ...(await factsOf(server.adminUrl)), adminUrl: server.adminUrl, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function factsOf(adminUrl: string): Promise<Pick<Server, 'version' | 'settings' | 'pid'>> {
  return withClient(adminUrl, async (client) => {
    const about = await client.query<{ version: string; pid: number; fsync: string }>(
      `select current_setting('server_version') as version, pg_backend_pid() as pid, current_setting('fsync') as fsync`,
    );
    const [row] = about.rows;
    if (row === undefined || row.fsync !== 'on') {
      throw new Error('the server has fsync off: what it measures would hold for no server that keeps jobs');
    }
    const { rows } = await client.query<{ name: string; value: string }>(
      `select name, current_setting(name) as value from pg_settings
       where source in ('command line', 'configuration file', 'environment variable') and boot_val is distinct from reset_val
         and name not in ('port', 'data_directory', 'listen_addresses', 'unix_socket_directories', 'application_name', 'hba_file',
                          'ident_file', 'config_file', 'log_timezone', 'TimeZone', 'default_text_search_config')
         and not starts_with(name, 'lc_')
       order by name`,
    );
    const pid = isProcess(row.pid, 'postgres') ? parentOf(row.pid) : undefined;
    return {
      version: row.version,
      settings: Object.fromEntries(rows.map(({ name, value }) => [name, value])),
      pid,
    };
  });
}
