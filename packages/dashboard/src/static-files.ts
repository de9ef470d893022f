import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { extname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { pagePolicy } from './guard/headers.ts';
import type { Settings } from './options.ts';

/** The built front end. */
export interface StaticFiles {
  /** Undefined: there is no such file. */
  readonly file: (path: string) => Response | undefined;
  /** Returns index.html, for every address of the front end. */
  readonly page: () => Response;
}

const types: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.woff2': 'font/woff2',
  '.json': 'application/json',
  '.txt': 'text/plain; charset=utf-8',
};

/** Folder of the built front end: next to the compiled code, or in `dist` when run from source. */
export function builtFolder(): string {
  const here = import.meta.url.endsWith('.ts') ? '../dist/web/' : './web/';
  return fileURLToPath(new URL(here, import.meta.url));
}

/**
 * Reads the folder on first use and keeps its files in memory, so that only those files are ever served. It
 * is read again as long as it has no index.html.
 * @param given `overall`: its pages are those over all installations
 */
export function createStaticFiles(
  folder: string,
  { basePath, installation }: Pick<Settings, 'basePath' | 'installation'>,
  { overall = false }: { readonly overall?: boolean } = {},
): StaticFiles {
  // no name can be `*`
  const view = overall ? '*' : (installation?.name ?? '');
  let read:
    | { readonly files: ReadonlyMap<string, Uint8Array<ArrayBuffer>>; readonly index: string | undefined }
    | undefined;
  const all = (): NonNullable<typeof read> => {
    if (read?.index !== undefined) return read;
    const files = filesIn(folder);
    const index = files.get('index.html');
    read = { files, index: index === undefined ? undefined : new TextDecoder().decode(index) };
    return read;
  };
  return {
    file: (path) => {
      const name = path.replace(/^\//, '');
      const type = types[extname(name)];
      const file = all().files.get(name);
      if (file === undefined || type === undefined || name === 'index.html') return undefined;
      const kept = name.startsWith('assets/') ? 'private, max-age=31536000, immutable' : 'no-cache';
      return new Response(file, { headers: { 'content-type': type, 'cache-control': kept } });
    },
    page: () => {
      const { index } = all();
      if (index === undefined) {
        return new Response('The front end of the dashboard is not built: run "pnpm build".\n', {
          status: 503,
          headers: { 'content-type': 'text/plain; charset=utf-8' },
        });
      }
      const nonce = randomBytes(18).toString('base64');
      const html = index
        .replaceAll('__PGQUEUE_NONCE__', nonce)
        .replaceAll('__PGQUEUE_BASE__', `${basePath}/`)
        .replaceAll('__PGQUEUE_VIEW__', view);
      return new Response(html, {
        headers: {
          'content-type': 'text/html; charset=utf-8',
          'content-security-policy': pagePolicy(nonce),
        },
      });
    },
  };
}

function filesIn(folder: string): ReadonlyMap<string, Uint8Array<ArrayBuffer>> {
  if (!existsSync(folder)) return new Map();
  return new Map(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => {
        const path = join(entry.parentPath, entry.name);
        return [
          path.slice(folder.length).split(sep).join('/').replace(/^\//, ''),
          new Uint8Array(readFileSync(path)),
        ];
      }),
  );
}
