#!/usr/bin/env node
import nodeModule from 'node:module';
import { nodeProblem } from './node-version.ts';

// An older Node can't load the rest: no static import here may need a newer one, not even by a name that Node exports only since.
const tooOld = nodeProblem(process.versions.node);
if (tooOld === undefined) {
  await main(process.argv.slice(2));
} else {
  process.stderr.write(`pgqueue: ${tooOld}\n`);
  process.exitCode = 78;
}

async function main(args: readonly string[]): Promise<void> {
  // Most of a short command's time is spent on loading code: a third of it, where it was compiled before.
  nodeModule.enableCompileCache();
  const { redactorFor, runCli } = await import('./program.ts');
  const { endOnUncaught } = await import('./uncaught.ts');
  endOnUncaught(redactorFor(args));

  // A reader that has seen enough (head) closes the pipe: that is no failure.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0);
    throw error;
  });
  process.exitCode = await runCli(args);
}
