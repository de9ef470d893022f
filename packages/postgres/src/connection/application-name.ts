// oxlint-disable-next-line no-control-regex -- control characters are what this is about
const control = /[\u0000-\u001f\u007f]/g;

/**
 * A name as PostgreSQL shows it in pg_stat_activity. It goes into the first packet of a connection, where a NUL would end it, and what
 * comes behind would be taken for other settings of the session: control characters become question marks.
 */
export function applicationName(name: string): string {
  return name.replaceAll(control, '?').toWellFormed().slice(0, 200);
}
