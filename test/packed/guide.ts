import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';
import { blocksOf, useOf } from '../docs/blocks.ts';
import { root, run } from './tarballs.ts';

/** The files of docs/guides/testing.md, as a reader has them. */
export interface Guide {
  /** Runs its tests; rejects with the runner's output where one fails, else resolves to it. */
  readonly vitest: () => Promise<string>;
  readonly jest: () => Promise<string>;
}

/**
 * Writes them into folders of a project. The runners are the repository's own, linked: to install them takes longer than all else.
 * @param adminUrl of a server that is there
 */
export function writeGuide(project: string, adminUrl: string): Guide {
  const blocks = blocksOf(readFileSync(join(root, 'docs/guides/testing.md'), 'utf8'));
  const files = blocks.flatMap((block) => {
    const use = useOf(block);
    return use.kind === 'file' ? [{ name: use.name, text: block.text }] : [];
  });
  const write = (folder: string, wanted: (name: string) => boolean): void => {
    mkdirSync(join(project, folder));
    for (const { name, text } of files) if (wanted(name)) writeFileSync(join(project, folder, name), text);
  };
  write('by-vitest', (name) => name.endsWith('.ts'));
  write('by-jest', (name) => name.endsWith('.js'));
  const tasks = files.find(({ name }) => name === 'tasks.ts')?.text ?? '';
  writeFileSync(join(project, 'by-jest/tasks.js'), stripTypeScriptTypes(tasks));
  for (const runner of ['vitest', 'jest']) {
    symlinkSync(join(root, 'node_modules', runner), join(project, 'node_modules', runner));
  }
  const patience = '50000'; // beside everything else that is tested
  const env = { PGQUEUE_TEST_DATABASE_URL: adminUrl, PGQUEUE_TEST_TIMEOUT_MS: patience, NO_COLOR: '1' };
  return {
    vitest: async () =>
      (await run('vitest', ['run', `--testTimeout=${patience}`], join(project, 'by-vitest'), env)).stdout,
    jest: async () => {
      const options = { ...env, NODE_OPTIONS: '--experimental-vm-modules' };
      return (
        await run('jest', ['--rootDir', '.', `--testTimeout=${patience}`], join(project, 'by-jest'), options)
      ).stderr;
    },
  };
}
