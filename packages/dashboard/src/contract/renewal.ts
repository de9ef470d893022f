/**
 * Header of a request whose page has an answer already and asks for a newer one, see {@link renewEveryMs}.
 * Its answer may come from the cache.
 */
export const renewalHeader = 'x-pgqueue-renewal';

/** Interval at which a visible page refreshes each kind of answer, in milliseconds. */
export const renewEveryMs = {
  overview: 10_000,
  keys: 5_000,
  queues: 5_000,
  jobs: 5_000,
  job: 2_000,
  explain: 15_000,
  flows: 5_000,
  flow: 2_000,
  'flow-results': 5_000,
  nodes: 5_000,
  'node-jobs': 5_000,
  dead: 10_000,
  'dead-groups': 15_000,
  schedules: 15_000,
  policy: 5_000,
  health: 15_000,
  audit: 15_000,
  installations: 5_000,
} as const;
