// One scenario in a process of its own, with a bug or without.
import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';
import { actorOptions, url } from '../support/actors/messages.ts';
import { bugs } from './bugs.ts';

const options = actorOptions as { readonly scenario: string; readonly bug?: string };
const bug = bugs.find(({ name }) => name === options.bug)?.module;
let seeded = false;
if (bug !== undefined) {
  registerHooks({
    load: (url, context, next) => {
      if (!url.startsWith('file:') || !url.endsWith(bug.module)) return next(url, context);
      let source = readFileSync(fileURLToPath(url), 'utf8');
      for (const { from, to } of bug.edits) {
        if (!source.includes(from)) throw new Error(`${bug.module} does not contain: ${from}`);
        source = source.replaceAll(from, to);
      }
      seeded = true;
      return { format: 'module-typescript', source, shortCircuit: true };
    },
  });
}

await import('../chaos/actors/tap.ts');
const { openOwnHistory } = await import('../chaos/actors/config.ts');
const { openStage } = await import('./stage.ts');
const { scenarios } = await import('./scenarios.ts');
if (bug !== undefined && !seeded) throw new Error(`${bug.module} was never loaded`);

const stage = openStage(url, openOwnHistory());
await scenarios[options.scenario]?.(stage);
await stage.finish();
await stage.look();
await stage.close();
