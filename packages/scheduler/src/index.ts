export { latestSlot, nextSlot, scheduleProblems } from './cron-slots.ts';
export type { SchedulerOptions } from './options.ts';
export type { Scheduler } from './scheduler.ts';
export { createScheduler } from './scheduler.ts';
