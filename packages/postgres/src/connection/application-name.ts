// oxlint-disable-next-line no-control-regex -- control characters are what this is about
const control = /[\u0000-\u001f\u007f]/g;

/**
 * Returns a name as pg_stat_activity shows it. The name is part of a connection's first packet, where a NUL
 * would end it and the rest would be read as other settings of the session. Control characters become
 * question marks.
 */
export function applicationName(name: string): string {
  return name.replaceAll(control, '?').toWellFormed().slice(0, 200);
}
