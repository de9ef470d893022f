export type { EnqueuedOf, Enqueuer } from './enqueuer.ts';
export type { Producer, ProducerOptions } from './producer.ts';
export { createProducer } from './producer.ts';
export type { ResultOptions } from './results.ts';
export type { TraceSource } from './rows.ts';
export type { FlowEnd, FlowHandle, FlowHandleOf } from './flow-ends.ts';
export type { FlowRun, FlowRunOf, FlowStarter } from './flows.ts';
