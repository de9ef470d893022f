import { spawnSync } from 'node:child_process';
import { pathToFileURL } from 'node:url';

/** Why a file that was named can't be read, in words. */
export function whyUnread(error: unknown): string {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return 'there is no such file';
  return error instanceof Error ? error.message : String(error);
}

/** Why the module at `path` can't be imported, in words. */
export function whyNotImported(error: unknown, path: string): string {
  if (!(error instanceof Error)) return `can't be imported: ${String(error)}`;
  const at = error instanceof SyntaxError ? placeOf(error.stack ?? '') || placeFound(path) : '';
  const said = `can't be imported: ${error.name}: ${error.message}${at}`;
  const isTypeScript = 'code' in error && error.code === 'ERR_UNKNOWN_FILE_EXTENSION';
  if (!isTypeScript) return said;
  return `${said}: Node ${process.version} does not run TypeScript: give the compiled file, or use Node 22.18 or newer`;
}

/** The place that Node puts before a syntax error: a line with the file and the line's number. A script of its own is no place. */
function placeOf(text: string): string {
  const [, file, line] = /^(?:file:\/\/)?(?!.*\[eval)(\/.*|[A-Z]:.*):(\d+)$/m.exec(text) ?? [];
  return file === undefined ? '' : ` (${file}:${line})`;
}

/**
 * Finds the place of a syntax error in an ES module or in one that it imports. Node tells it of an error that nobody catches alone, so
 * another process imports the module. Nothing of it is run there: a second import, of a name that is not exported, can't be linked.
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
