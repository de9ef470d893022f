/**
 * A name as PostgreSQL shows it in pg_stat_activity. It goes into the first packet of a connection, where a NUL would end it, and what
 * comes behind would be taken for other settings of the session: control characters become question marks.
 */
export function applicationName(name: string): string {
  // oxlint-disable-next-line no-control-regex -- control characters are what this is about
  return name
    .replaceAll(/[\u0000-\u001f\u007f]/g, '?')
    .toWellFormed()
    .slice(0, 200);
}
