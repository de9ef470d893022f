import { existsSync, globSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** Every Markdown file of the docs that somebody wrote, from the root of the repository. */
export const documents: readonly string[] = [
  'README.md',
  'CONTRIBUTING.md',
  ...globSync(['docs/**/*.md', 'packages/*/README.md', 'clients/*/README.md'], { cwd: root }),
].filter((name) => !name.startsWith('docs/api/') && existsSync(join(root, name)));
