export type { Worker } from './worker.ts';
export { createWorker } from './worker.ts';
export type { WorkerLogger, WorkerOptions } from './options.ts';
export { AbortedError } from './attempts.ts';
