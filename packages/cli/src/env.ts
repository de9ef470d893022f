/** Environment of the command line; it is read nowhere else. */
export interface Env {
  readonly databaseUrl: string | undefined;
  /** Variable that `databaseUrl` comes from. */
  readonly databaseUrlFrom: 'PGQUEUE_DATABASE_URL' | 'DATABASE_URL';
  /** File of the codec: `PGQUEUE_CODEC`. */
  readonly codec: string | undefined;
  readonly noColor: boolean;
}

export function readEnv(env: Readonly<Record<string, string | undefined>> = process.env): Env {
  const own = env['PGQUEUE_DATABASE_URL'];
  return {
    databaseUrl: own || env['DATABASE_URL'] || undefined,
    databaseUrlFrom: own ? 'PGQUEUE_DATABASE_URL' : 'DATABASE_URL',
    codec: env['PGQUEUE_CODEC'] || undefined,
    noColor: (env['NO_COLOR'] ?? '') !== '' || env['TERM'] === 'dumb',
  };
}
