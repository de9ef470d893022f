// One scenario in a process of its own: node doomed.ts SCENARIO URL
import { once } from 'node:events';
import { scenarios } from './scenarios.ts';

const [name, url = ''] = process.argv.slice(2);
const scenario = scenarios.find((one) => one.name === name);
if (scenario === undefined) throw new Error(`no scenario ${name}`);
const say = (message: object): void => void process.send?.(message);

await scenario.run(url, {
  signal: new AbortController().signal,
  acknowledged: (id) => say({ id }),
  left: async (left, atMostMs) => {
    say({ left, atMostMs });
    await once(process, 'message');
  },
  alone: true,
});
process.disconnect?.();
