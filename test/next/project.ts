import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';
import { blocksOf, useOf } from '../docs/blocks.ts';
import type { Tarball } from '../packed/tarballs.ts';
import { root } from '../packed/tarballs.ts';

/** Versions that the test installs beside our tarballs. */
const versions = { next: '16.4.6', zod: '4.6.7', react: '19.3.1', 'react-dom': '19.3.1' } as const;
const route = 'app/admin/queue/[[...path]]';

/** A route handler that runs a whole queue, whose packages Next puts into its bundle. */
const queueRoute = `
import { createQueue, defineTask, implement, isolated } from 'pgqueue';
import { z } from 'zod';

const hello = defineTask({ name: 'hello', payload: z.object({ name: z.string() }) });

export async function POST() {
  const connectionString = process.env.DATABASE_URL;
  const queue = createQueue({ connectionString, tasks: [implement(hello, ({ name }) => name.length)] });
  await queue.start();
  const result = await queue.result(await queue.enqueue(hello, { name: 'Next' }));
  await queue.stop();
  const apart = [implement(hello, isolated(new URL('file:///heavy.js')))];
  try {
    createQueue({ connectionString, tasks: apart });
  } catch ({ code }) {
    return Response.json({ result, apart: code });
  }
}
`;

/**
 * Writes a Next application with the route handler of docs/guides/dashboard.md. Strips TypeScript, because
 * Next would install a compiler.
 */
export function writeProject(project: string, tarballs: readonly Tarball[]): void {
  const write = (name: string, text: string): void => writeFileSync(join(project, name), text);
  mkdirSync(join(project, route), { recursive: true });
  const blocks = blocksOf(readFileSync(join(root, 'docs/guides/dashboard.md'), 'utf8'));
  for (const wanted of ['dashboard.ts', 'route.ts']) {
    const block = blocks.find((one) => {
      const use = useOf(one);
      return use.kind === 'file' && use.name === wanted;
    });
    if (block === undefined) throw new Error(`the guide has no ${wanted}`);
    const text = stripTypeScriptTypes(block.text).replaceAll(/'(\.\/\w+)\.ts'/g, "'$1.js'");
    write(join(route, wanted.replace('.ts', '.js')), text);
  }
  write(
    'app/layout.js',
    'export default ({ children }) => <html lang="en"><body>{children}</body></html>;\n',
  );
  write('app/page.js', 'export default () => <p>an application</p>;\n');
  mkdirSync(join(project, 'app/hello'), { recursive: true });
  write('app/hello/route.js', queueRoute);
  write('next.config.mjs', "export default { serverExternalPackages: ['@pgqueue/dashboard', 'pg'] };\n");
  const ours = tarballs.map(({ name, file }) => [name, `file:${file}`] as const);
  const manifest = {
    name: 'next-user',
    private: true,
    type: 'module',
    dependencies: { ...versions, ...Object.fromEntries(ours) },
    overrides: Object.fromEntries(ours.map(([name]) => [name, `$${name}`])),
  };
  write('package.json', JSON.stringify(manifest));
}
