export type { MaintenanceWindowOptions } from './maintenance/window.ts';
export { maintenanceWindow } from './maintenance/window.ts';
export type { SchedulerOptions } from './options.ts';
export type { Scheduler } from './scheduler.ts';
export type { KeyShare, ShadowReport } from './policy/shadow.ts';
export { createScheduler } from './scheduler.ts';
export type { HealthOptions, StopOnSignals, Stoppable } from '@pgqueue/postgres';
export { stopOnSignals } from '@pgqueue/postgres';
