/** Says of a request that its page has the answer already, and asks only whether it has changed: see {@link renewEveryMs}. */
export const renewalHeader = 'x-pgqueue-renewal';

/** How often a page that is looked at asks anew, by what it asks for. */
export const renewEveryMs = {
  overview: 10_000,
  keys: 5_000,
  queues: 5_000,
  jobs: 5_000,
  job: 2_000,
  explain: 15_000,
  nodes: 5_000,
  'node-jobs': 5_000,
  dead: 10_000,
  'dead-groups': 15_000,
  schedules: 15_000,
  policy: 5_000,
  health: 15_000,
  audit: 15_000,
} as const;
