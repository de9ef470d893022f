/** Why a file that was named can't be read, in words. */
export function whyUnread(error: unknown): string {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return 'there is no such file';
  return error instanceof Error ? error.message : String(error);
}

/** Why a module that was named can't be imported, in words. */
export function whyNotImported(error: unknown): string {
  if (!(error instanceof Error)) return `can't be imported: ${String(error)}`;
  const said = `can't be imported: ${error.name}: ${error.message}`;
  const isTypeScript = 'code' in error && error.code === 'ERR_UNKNOWN_FILE_EXTENSION';
  if (!isTypeScript) return said;
  return `${said}: Node ${process.version} does not run TypeScript: give the compiled file, or use Node 22.18 or newer`;
}
