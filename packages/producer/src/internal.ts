// Parts that the router is made of. Not for users: any release may change them.
export { createRoutedProducer } from './producer.ts';
export { waitMs } from './results.ts';
export { flowIdOf } from './flow-ends.ts';
