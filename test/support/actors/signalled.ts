// A program that stops on signals: `quick`, at once; `never`, not at all.
import { stopOnSignals } from '@pgqueue/worker';

const how = process.argv[2];
const alive = setInterval(() => {}, 1_000);
const part = (name: string): { readonly stop: () => Promise<void> } => ({
  stop: () => {
    console.log(`stopping ${name}`);
    return how === 'never' ? new Promise(() => {}) : Promise.resolve();
  },
});
const { stopped } = stopOnSignals(part('worker'), part('scheduler'));
console.log('ready');
await stopped;
clearInterval(alive);
console.log('stopped');
