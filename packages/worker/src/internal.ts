// Parts that the router and createQueue are made of. Not for users: any release may change them.
export type { SharedSlots } from './claim/shared-slots.ts';
export { createPace } from './claim/poll-interval.ts';
export { createSharedSlots } from './claim/shared-slots.ts';
export { aHeartbeatThread } from './node-options.ts';
export { aDrain, checkStop } from './options.ts';
export { createSharingWorker } from './worker.ts';
export { unitsOf } from './lease/unit.ts';
export { checkClaim } from './pull/puller-options.ts';
export { createAskedPuller, pulled } from './pull/puller.ts';
export type { AskedJobs, AskedPuller } from './pull/verbs.ts';
