#!/usr/bin/env node
import { enableCompileCache } from 'node:module';

// Most of a short command's time is spent on loading code: a third of it, where it was compiled before.
enableCompileCache();
const { redactorFor, runCli } = await import('./program.ts');
const { endOnUncaught } = await import('./uncaught.ts');
const args = process.argv.slice(2);
endOnUncaught(redactorFor(args));

// A reader that has seen enough (head) closes the pipe: that is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});
process.exitCode = await runCli(args);
