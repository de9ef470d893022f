// A program that stops on signals: `quick`, at once; `never`, not at all; `stuck`, nor can it leave.
import type { Stoppable } from '@pgqueue/worker';
import { stopOnSignals } from '@pgqueue/worker';

const how = process.argv[2];
const alive = setInterval(() => {}, 1_000);
const part = (name: string): Required<Stoppable> => ({
  stop: () => {
    console.log(`stopping ${name}`);
    return how === 'quick' ? Promise.resolve() : new Promise(() => {});
  },
  leave: () => {
    console.log(`${name} leaves`);
    return how === 'stuck' ? new Promise(() => {}) : Promise.resolve();
  },
});
const { stopped } = stopOnSignals(part('worker'), part('scheduler'));
console.log('ready');
await stopped;
clearInterval(alive);
console.log('stopped');
