export { keyOf } from '../codec/encrypted.ts';
export { openedJob } from '../codec/opened-jobs.ts';
export type {
  Activity,
  ActivityBucket,
  ActivityOptions,
  ActivitySums,
  Histogram,
  QueueActivity,
} from './activity.ts';
export { addHistograms, quantileMs, readActivity } from './activity.ts';
export type { RoleOptions } from './as-role.ts';
export { asRole, missingRoles } from './as-role.ts';
export type { Action, Actor, AuditLine, AuditOptions } from './audit.ts';
export { audited, listAudit, noteAction, noteResult } from './audit.ts';
export type { GroupedDead, GroupedFilter, GroupedOptions, GroupedPage } from './dead-groups.ts';
export { groupOf, listGroupedDead } from './dead-groups.ts';
export type { FindFilter, FindOptions, Found } from './find-jobs.ts';
export { countFound, findJobs, timeOfId } from './find-jobs.ts';
export type { FindFlowsOptions, FoundFlows, StepEnd } from './flows.ts';
export { countFailedFlows, findFlows, listStepEnds, readFlowNames } from './flows.ts';
export type { SavedState, ServerInfo, TableSize } from './installation.ts';
export { readClock, readPolicyStates, readServer, readTables } from './installation.ts';
export type { Before, ListedJob } from './job-rows.ts';
export { readBefore, readDispatched, readErrors, readListed, readPayloads } from './job-rows.ts';
export { keyIsTaken } from './keyed-jobs.ts';
export type { BusyKey, BusyKeys, WaitingKey, WaitingKeysOptions } from './keys.ts';
export { countWaiting, readBusyKeys, readLanes, readWaitingKeys } from './keys.ts';
export { readJob, readSummary } from '../reads/jobs.ts';
export { readReport } from '../reads/report.ts';
export { readLeader, readSchemaVersion } from '../reads/system.ts';
export type { StoredSettings } from './settings.ts';
export { defaultSettings, readSettings } from './settings.ts';
export type { StoredSchedule } from './schedules.ts';
export { readPaused, readSchedules } from './schedules.ts';
export { migrationsOf } from '../migrate/migrator.ts';
