export type { Queue, QueueOptions } from './queue.ts';
export { createQueue } from './queue.ts';
export type {
  Codec,
  Duration,
  Enqueued,
  Flow,
  FlowOptions,
  JobContext,
  JobOptions,
  NewJob,
  Observer,
  PgQueueEvent,
  Policy,
  Task,
  TaskDefinition,
  TaskHandler,
  TaskResult,
} from '@pgqueue/core';
export {
  byScore,
  cancelled,
  circuitBreaker,
  concurrency,
  databaseHealth,
  defaultPolicy,
  defineTask,
  earliestDeadline,
  fairShare,
  fifo,
  fanOut,
  flow,
  gate,
  giveUp,
  implement,
  implementBatch,
  isolated,
  logObserver,
  ordered,
  PgQueueError,
  policy,
  rate,
  retryAfter,
  signal,
  snooze,
  standardGates,
  strictPriority,
  timer,
} from '@pgqueue/core';
export type {
  EncryptedOptions,
  EncryptionKey,
  HealthOptions,
  Operator,
  PgQueryable,
} from '@pgqueue/postgres';
export { blind, encrypted } from '@pgqueue/postgres';
export type { Enqueuer, FlowEnd, FlowHandle, FlowRun, FlowStarter, ResultOptions } from '@pgqueue/producer';
export { maintenanceWindow } from '@pgqueue/scheduler';
export type { Around, AroundJob, CalledJob, ExecutableOptions, WorkerLogger } from '@pgqueue/worker';
export { executable, stopOnSignals, Suspended } from '@pgqueue/worker';
