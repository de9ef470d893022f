#!/usr/bin/env node
import nodeModule from 'node:module';
import { nodeProblem } from './node-version.ts';

// An older Node cannot load the other modules. Static imports here must therefore work on any Node, and must
// not name an export that an older Node lacks.
const tooOld = nodeProblem(process.versions.node);
if (tooOld === undefined) {
  await main(process.argv.slice(2));
} else {
  process.stderr.write(`pgqueue: ${tooOld}\n`);
  process.exitCode = 78;
}

async function main(args: readonly string[]): Promise<void> {
  // Loading code takes most of a short command's time; a warm compile cache reduces that to a third.
  nodeModule.enableCompileCache();
  const { failureText, redactorFor, runCli, wantsJson } = await import('./program.ts');
  const { endOnUncaught } = await import('./uncaught.ts');
  const { endWithReader } = await import('./output/pipes.ts');
  const [redact, json] = [redactorFor(args), wantsJson(args)];
  endOnUncaught(redact);
  endWithReader((message) => process.stderr.write(failureText({ code: 'output', message, json, redact })));
  process.exitCode = await runCli(args);
}
