// The command from source, for a clone of this repository: run by the package.json script `pgqueue`. Package managers run scripts in
// the folder of package.json, and say in INIT_CWD where they were called: paths on the command line mean that folder.
import process from 'node:process';

const calledIn = process.env['INIT_CWD'];
if (calledIn) process.chdir(calledIn);
if (['dev', 'dashboard'].some((command) => process.argv.includes(command))) {
  const { ensureWeb } = await import('./build-web.mjs');
  await ensureWeb();
}
await import('../packages/cli/src/main.ts');
