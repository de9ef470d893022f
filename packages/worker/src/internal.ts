// Parts that the router is made of. Not for users: any release may change them.
export type { SharedSlots } from './claim/shared-slots.ts';
export { createSharedSlots } from './claim/shared-slots.ts';
export { createSharingWorker } from './worker.ts';
