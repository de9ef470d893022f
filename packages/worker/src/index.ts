export type { Worker } from './worker.ts';
export { createWorker } from './worker.ts';
export type { NodeOptions, WorkerLogger, WorkerOptions } from './options.ts';
export { AbortedError } from './attempt.ts';
export type { PulledJob } from './pulled.ts';
export type { Jobs, Pulled, Puller } from './puller-verbs.ts';
export { createPuller } from './puller.ts';
export type { PulledTask, PullerOptions } from './puller-options.ts';
