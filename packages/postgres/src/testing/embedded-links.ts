import { existsSync, readFileSync, symlinkSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

/**
 * Makes the links to the libraries of the embedded server, as the install script of its package does:
 * archives of the registry hold no links, and pnpm and Yarn run no such script unless told to.
 * @param folder `native` of the package, with `bin` and `lib`
 * @throws if a link is missing and can't be made, such as in a folder of another user
 */
export function restoreLinks(folder: string): void {
  const list = join(folder, 'pg-symlinks.json');
  if (!existsSync(list)) return;
  const links = JSON.parse(readFileSync(list, 'utf8')) as readonly Link[];
  for (const { source, target } of links) {
    const link = resolve(folder, '..', target);
    try {
      symlinkSync(relative(dirname(link), resolve(folder, '..', source)), link);
    } catch (error) {
      if (!existsSync(link)) throw error;
    }
  }
}

/** A link at `target` to the file `source`, both from the folder above `native`. */
interface Link {
  readonly source: string;
  readonly target: string;
}
