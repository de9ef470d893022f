// A user's program that the test bundles. Its arguments name what it uses; it prints what came of it.
import { once } from 'node:events';
import { createQueue, defineTask, implement, isolated } from 'pgqueue';
import { z } from 'zod';

const uses = new Set(process.argv.slice(2));
const payload = z.object({ n: z.number() });
const light = defineTask({ name: 'light', payload, result: z.number() });
const heavy = defineTask({ name: 'heavy', payload, result: z.number() });

let warning: string | undefined;
const warned = once(process, 'warning').then(([{ code }]) => {
  warning = code;
});

async function main(): Promise<object> {
  const beside = (file: string): URL => new URL(file, import.meta.url);
  const queue = createQueue({
    connectionString: process.env['DATABASE_URL'] ?? '',
    migrate: uses.has('migrate'),
    tasks: [
      implement(light, ({ n }) => n + 1),
      ...(uses.has('isolated') ? [implement(heavy, isolated(beside('./heavy.js')))] : []),
    ],
    ...(uses.has('thread') ? { heartbeatThread: beside('./heartbeat-thread.js') } : {}),
  });
  await queue.start();
  const results = [await queue.result(await queue.enqueue(light, { n: 1 }))];
  if (uses.has('isolated')) {
    results.push((await queue.result(await queue.enqueue(heavy, { n: 1 }))) - process.pid);
  }
  if (uses.has('warning')) await warned;
  await queue.stop();
  return { results, warning };
}

const print = (answer: object): void => console.log(JSON.stringify(answer));
main().then(print, ({ code, message }: Error & { readonly code?: string }) => print({ code, message }));
