export type { Worker } from './worker.ts';
export { createWorker } from './worker.ts';
export type { NodeOptions, WorkerLogger, WorkerOptions } from './options.ts';
export { AbortedError } from './attempt.ts';
