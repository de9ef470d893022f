export type { Enqueuer } from './enqueuer.ts';
export type { Producer, ProducerOptions } from './producer.ts';
export { createProducer } from './producer.ts';
export type { TraceSource } from './rows.ts';
