import { apartUnlocked, dispatchBlind, rowsUnfenced } from './batch-bugs.ts';
import type { SqlBug } from './sql.ts';

/** A mistake in one module, made while it is loaded: the source files have no switches for bugs. */
export interface ModuleBug {
  /** End of the module's path. */
  readonly module: string;
  readonly edits: SqlBug['edits'];
}

export interface Bug {
  readonly name: string;
  readonly scenario: string;
  /** Name of the checker's list that must report the bug. */
  readonly finds: string;
  readonly sql?: readonly SqlBug[];
  /** Additional SQL of the migration with the mistake. */
  readonly before?: string;
  readonly module?: ModuleBug;
}

const settles = [
  'settle_done(timestamptz,uuid[],uuid[],text[],double precision[])',
  'settle_mixed(uuid[],uuid[],text[],double precision[],text[],double precision[])',
];
const leaseItems = 'lease_items(text,uuid,uuid,jsonb)';
const leaseAll = 'lease_all(text,uuid,bigint[],jsonb,timestamptz)';
const crash = 'crash_all(bigint[],bigint[],text,boolean)';

/**
 * True if the checker found the bug's own effect. A bug whose effect is on jobs does not count as caught if a
 * process died.
 */
export function isCaught({ finds }: Bug, found: readonly string[]): boolean {
  const died = found.some((problem) => problem.startsWith('process_died'));
  return found.some((problem) => problem.startsWith(finds)) && (finds === 'process_died' || !died);
}

/**
 * The twelve bugs of the specification, and three of batches. A scenario finds each of them, and is good
 * without it.
 */
export const bugs: readonly Bug[] = [
  {
    name: 'no fence on settle',
    scenario: 'stolen',
    finds: 'accepted_not_newest',
    sql: settles.map((name) => ({
      function: name,
      edits: [{ from: 'and w.lock_token = i.token', to: 'and w.lock_key is not null' }],
    })),
  },
  {
    name: 'no fence on extend',
    scenario: 'extended',
    finds: 'unexplained_duplicates',
    sql: [
      {
        function: 'extend(uuid[],uuid[],double precision[])',
        edits: [{ from: 'and w.lock_token = x.token', to: 'and w.lock_key is not null' }],
      },
    ],
  },
  {
    name: 'a reset that keeps the token',
    scenario: 'reset',
    finds: 'accepted_not_newest',
    before: 'alter table pgqueue.work_queue drop constraint work_queue_lease_whole',
    sql: [
      {
        function: crash,
        edits: [{ from: 'set lock_key = null, lock_token = null,', to: 'set lock_key = null,' }],
      },
      {
        function: leaseAll,
        edits: [{ from: 'lock_token = p_token', to: 'lock_token = coalesce(w.lock_token, p_token)' }],
      },
    ],
  },
  {
    name: 'the retry in two statements',
    scenario: 'failed',
    finds: 'invariant_broken',
    module: {
      module: '/calls/settle.ts',
      edits: [
        {
          from: 'if (settlements.length === 0) return new Map();',
          to: `if (settlements.length === 0) return new Map();
  const [{ id, token, outcome }] = settlements;
  if (outcome === 'retry') {
    const marked = await target.query(
      \`update \${target.schema}.queue q set run_after = clock_timestamp(), tries = tries + 1
       where q.id = $1 and (select w.lock_token from \${target.schema}.work_queue w where w.id = q.id) = $2 returning q.id\`, [id, token]);
    await target.query(\`delete from \${target.schema}.work_queue where id = $1 and lock_token = $2\`, [id, token]);
    return new Map(marked.map((row) => [row.id, 'retry']));
  }`,
        },
      ],
    },
  },
  {
    name: "a lease by the node's clock",
    scenario: 'slow clock',
    finds: 'unexplained_duplicates',
    module: {
      module: '/calls/claim.ts',
      edits: [
        {
          from: '  return mended(await target.query<ClaimRow>(text, valuesOf(input)), input.token);',
          to: `  const rows = await target.query<ClaimRow>(text, valuesOf(input));
  for (const { id, leaseMs } of rows) await target.query(
    \`update \${target.schema}.work_queue set lock_timeout = to_timestamp($3::float8 / 1000) where id = $1 and lock_token = $2\`,
    [id, input.token, Date.now() + leaseMs]);
  return mended(rows, input.token);`,
        },
      ],
    },
  },
  {
    name: 'no crash limit',
    scenario: 'poison',
    finds: 'crash_limit',
    sql: [
      {
        function: crash,
        edits: [
          { from: 'and (l.charge = 0 or q.crashes + 1 < q.max_crashes)', to: '' },
          { from: 'and (l.stop or (l.charge = 1 and q.crashes + 1 >= q.max_crashes))', to: 'and l.stop' },
        ],
      },
    ],
  },
  {
    name: 'no epoch check',
    scenario: 'takeover',
    finds: 'limit_exceeded',
    sql: [
      {
        function: 'assert_leader(text,bigint)',
        edits: [
          {
            from: 'where l.leader = p_leader and l.epoch = p_epoch and l.expires > clock_timestamp()',
            to: '',
          },
        ],
      },
    ],
  },
  {
    name: 'a semaphore released twice',
    scenario: 'limited',
    finds: 'limit_exceeded',
    module: {
      module: '/gates/concurrency.ts',
      edits: [
        {
          // when the job begins, and again when it ends
          from: 'open: (snapshot) => {',
          to: `open: (whole) => {
            const snapshot = { ...whole, inFlight: whole.inFlight.filter(({ state }) => state === 'ready') };`,
        },
      ],
    },
  },
  {
    name: 'now() in a long transaction',
    scenario: 'long transaction',
    finds: 'unexplained_duplicates',
    sql: [
      {
        function: leaseItems,
        edits: [{ from: 'v_now timestamptz := clock_timestamp()', to: 'v_now timestamptz := now()' }],
      },
    ],
  },
  {
    name: 'a shutdown that stops renewing',
    scenario: 'shutdown',
    finds: 'began again for no reason',
    module: {
      module: '/worker/src/node/heartbeat.ts',
      edits: [
        {
          from: 'const beat = async (): Promise<number> => {',
          to: 'const beat = async (): Promise<number> => {\n    if (draining.aborted) return heartbeatMs;',
        },
      ],
    },
  },
  {
    name: 'no error handler on clients',
    scenario: 'broken connection',
    finds: 'process_died',
    module: {
      module: '/postgres/src/connection/database.ts',
      edits: [{ from: "client.on('error', onError);", to: '' }],
    },
  },
  {
    name: 'a batch half written',
    scenario: 'half a batch',
    finds: 'limit_exceeded',
    module: {
      module: '/calls/dispatch.ts',
      edits: [
        {
          from: 'export async function dispatch(target: Target, input: DispatchInput)',
          to: `export async function dispatch(target, input) {
  const written = await dispatchPart(target, { ...input, parts: null, settled: [] });
  await dispatchPart(target, { ...input, jobs: [] });
  return written;
}
async function dispatchPart(target: Target, input: DispatchInput)`,
        },
      ],
    },
  },
  {
    name: 'a dispatch that does not look into batches',
    scenario: 'planned twice',
    finds: 'invariant_broken',
    sql: [dispatchBlind],
  },
  {
    name: 'a batch taken apart without its lock',
    scenario: 'taken while it is settled',
    finds: 'invariant_broken',
    sql: apartUnlocked,
  },
  {
    name: 'no fence on settle_rows',
    scenario: 'given back',
    finds: 'accepted_not_newest',
    sql: [rowsUnfenced],
  },
];
