/**
 * The API between the dashboard's server and its front end. This module has types only, used by both.
 *
 * Every path is below the dashboard's base path. Bodies are JSON. Times are ISO 8601 in UTC with
 * milliseconds. Durations are numbers of milliseconds. Bigints are texts. `null` means none or unknown;
 * answers never leave a member out.
 *
 * | request | query or body | answer | role |
 * |---|---|---|---|
 * | GET /api/session | | {@link Session} | viewer |
 * | GET /api/overview | {@link OverviewQuery} | {@link Overview} | viewer |
 * | GET /api/keys | {@link KeysQuery} | {@link Keys} | viewer |
 * | GET /api/queues | {@link NameQuery} | {@link Queues} | viewer |
 * | GET /api/jobs | {@link JobsQuery} | {@link JobsPage} | viewer |
 * | GET /api/jobs/count | {@link JobFilter} | {@link Count} | viewer |
 * | GET /api/jobs/:id | | {@link JobPage} | viewer |
 * | GET /api/jobs/:id/explain | | {@link Explanation} | viewer |
 * | GET /api/flows | {@link FlowsQuery} | {@link FlowsPage} | viewer |
 * | GET /api/flows/:id | | {@link FlowPage} | viewer |
 * | GET /api/flows/:id/results | {@link FlowResultsQuery} | {@link FlowResults} | viewer |
 * | GET /api/nodes | {@link NameQuery} | {@link Nodes} | viewer |
 * | GET /api/nodes/:id/jobs | {@link PageQuery} | {@link JobsPage} | viewer |
 * | GET /api/dead | {@link DeadQuery} | {@link DeadPage} | viewer |
 * | GET /api/dead/groups | {@link DeadFilter} | {@link DeadGroups} | viewer |
 * | GET /api/schedules | {@link NameQuery} | {@link Schedules} | viewer |
 * | GET /api/policy | | {@link PolicyPage} | viewer |
 * | GET /api/health | | {@link Health} | viewer |
 * | GET /api/health/doctor | | {@link Doctor}, one at a time | operator |
 * | GET /api/audit | {@link AuditQuery} | {@link AuditPage} | viewer |
 * | GET /api/live | | server-sent events: {@link LiveEvent} | viewer |
 * | POST /api/actions/jobs | {@link JobsAction} | {@link JobsActionResult} | operator |
 * | POST /api/actions/flow | {@link FlowActionRequest} | {@link FlowActionResult} | operator |
 * | POST /api/actions/queue | {@link QueueAction} | {@link QueueActionResult} | operator |
 * | POST /api/actions/node | {@link NodeAction} | {@link NodeActionResult} | operator |
 * | POST /api/actions/schedule | {@link ScheduleAction} | {@link ScheduleActionResult} | operator |
 * | POST /api/actions/undo | {@link UndoRequest} | {@link UndoResult} | operator |
 * | POST /api/bulk/preview | {@link BulkRequest} | {@link BulkPreview} | operator |
 * | POST /api/bulk | {@link BulkRequest} | {@link BulkRun} | operator |
 * | GET /api/bulk | | {@link BulkRuns} | viewer |
 * | GET /api/bulk/:run | | {@link BulkRun} | viewer |
 * | POST /api/bulk/:run/stop | {} | {@link BulkRun} | operator |
 *
 * With several installations, all of that is below `/i/NAME`, and over all of them there are:
 *
 * | request | answer | role |
 * |---|---|---|
 * | GET /api/installations | {@link Installations} | viewer |
 * | GET /api/find/:id | {@link Found} | viewer |
 *
 * Queries are query parameters. A filter that is left out does not apply; an empty text is a value (`key=`).
 *
 * A POST needs `content-type: application/json`, the header `x-pgqueue-csrf` with {@link Session.csrf}, and
 * the cookie that came with that token. After an answer with the code `csrf`, read the session again and
 * repeat the request once.
 *
 * An answer other than 2xx has the body {@link ApiError}.
 *
 * Programs use the HTTP API below /api/v1, which has an OpenAPI document of its own.
 *
 * The doctor reads every table, which takes seconds on large ones.
 *
 * The front end is in `dist/web`. Its files are served unchanged; names below `assets/` include a hash of the
 * content. Every other path outside /api is answered with `index.html`. In it the server replaces
 * `__PGQUEUE_NONCE__` by a nonce of this answer, which `style-src` of the content security policy names,
 * `__PGQUEUE_BASE__` by the base path with a slash at the end, and `__PGQUEUE_VIEW__` by what the pages are of: nothing
 * for the only installation, `*` for all of several, or the name of one of them.
 */
export type * from './contract/actions.ts';
export type * from './contract/audit.ts';
export type * from './contract/bulk.ts';
export type * from './contract/api.ts';
export type * from './contract/dead.ts';
export type * from './contract/flows.ts';
export type * from './contract/health.ts';
export type * from './contract/installations.ts';
export type * from './contract/jobs.ts';
export type * from './contract/keys.ts';
export type * from './contract/live.ts';
export type * from './contract/overview.ts';
export type * from './contract/policy.ts';
export type * from './contract/queues.ts';
