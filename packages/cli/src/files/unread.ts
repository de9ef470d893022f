import { spawnSync } from 'node:child_process';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** Explains why a file cannot be read. */
export function whyUnread(error: unknown): string {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return 'there is no such file';
  return error instanceof Error ? error.message : String(error);
}

/** Explains why a file cannot be written. */
export function whyUnwritten(error: unknown): string {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return 'there is no such folder';
  return error instanceof Error ? error.message : String(error);
}

/** Explains why the module at `path` cannot be imported. */
export function whyNotImported(error: unknown, path: string): string {
  if (!(error instanceof Error)) return `can't be imported: ${String(error)}`;
  const at = error instanceof SyntaxError ? placeOf(error.stack ?? '') || placeFound(path) : '';
  const said = `can't be imported: ${error.name}: ${error.message}${at}`;
  const isTypeScript = 'code' in error && error.code === 'ERR_UNKNOWN_FILE_EXTENSION';
  if (!isTypeScript) return said;
  return `${said}: Node ${process.version} does not run TypeScript: give the compiled file, or use Node 22.18 or newer`;
}

/**
 * Extracts the file and line that Node prints before a syntax error; a script passed by --eval is skipped.
 */
function placeOf(text: string): string {
  const [, file, line] = /^(?!.*\[eval)(file:\/\/.*|\/.*|[A-Z]:.*):(\d+)$/m.exec(text) ?? [];
  if (file === undefined) return '';
  return ` (${file.startsWith('file:') ? fileURLToPath(file) : file}:${line})`;
}

/**
 * Finds the file and line of a syntax error in an ES module or in one it imports. Node reports the place only
 * for uncaught errors, so another process imports the module. That process runs none of its code: linking
 * fails, because a second import names an export that does not exist.
 */
function placeFound(path: string): string {
  const url = JSON.stringify(pathToFileURL(path).href);
  const script = `import ${url}; import { absent } from 'data:text/javascript,';`;
  const { stderr } = spawnSync(
    process.execPath,
    [...process.execArgv, '--input-type=module', '--eval', script],
    { encoding: 'utf8', timeout: 10_000 },
  );
  return placeOf(stderr ?? '');
}
