// Hostile statements: those that producers and workers of any language may send, with odd values wherever
// they may write.
import pg from 'pg';
import type { Dice } from './values.ts';
import { arrayOf, oddJson, oddRetry, oddTasks, oddTrace, oddValue } from './values.ts';

/** One hostile statement. */
export interface Attack {
  readonly role: 'producer' | 'worker';
  readonly text: string;
  readonly values: readonly (string | null)[];
  /** Receives the statement's rows: leases that later attacks use. */
  readonly heard?: (rows: readonly Record<string, string>[]) => void;
}

interface Callable {
  readonly name: string;
  readonly types: readonly string[];
  readonly names: readonly string[];
}

interface Lease {
  readonly id: string;
  readonly token: string;
}

/** Tasks of hostile nodes: two that no worker of the test runs, and one that its workers run. */
const tasks = ['evil', 'nobody', 'fuzz'];
const ownTasks = ['evil', 'nobody'];
const schema = 'pgqueue';

const columns: Readonly<Record<string, string>> = {
  id: 'uuid',
  queue: 'text',
  task: 'text',
  key: 'text',
  priority: 'integer',
  attributes: 'jsonb',
  run_after: 'timestamp with time zone',
  expires_at: 'timestamp with time zone',
  timeout: 'interval',
  max_tries: 'smallint',
  max_crashes: 'smallint',
  retry: 'jsonb',
  unique_key: 'text',
  payload: 'jsonb',
  payload_version: 'integer',
  trace: 'jsonb',
};
const jobFields: Readonly<Record<string, string>> = {
  ...columns,
  n: 'integer',
  delay_ms: 'double precision',
  max_wait_ms: 'double precision',
  timeout_ms: 'double precision',
  mode: 'text',
  again: 'boolean',
};

/** A table whose values are compressed or stored out of line. */
export const outbox = `
  create table public.outbox (n integer, j jsonb, t text, i interval);
  insert into public.outbox values
    (0, jsonb_build_object('a', repeat('x', 20000000)), repeat('k', 100000), '300000 years'),
    (1, ('{"a":' || repeat('[', 4900) || repeat(']', 4900) || '}')::jsonb, repeat('k', 200), '1 mon -28 days'),
    (2, ('[' || rtrim(repeat('1e131071,', 60), ',') || ']')::jsonb, '', '0'),
    (3, ('{"a":' || rtrim(repeat('0e-16383', 1)) || '}')::jsonb, 'k', '1 ms'),
    (4, (select jsonb_object_agg('k' || g, 1e300) from generate_series(1, 900) g), 'evil', '10 years'),
    (5, jsonb_build_object('a', repeat('y', 390000)), 'evil', '1 second');
  grant select on public.outbox to public`;

/** Hostile nodes, and the leases that they hold. */
interface Known {
  readonly dice: Dice;
  readonly functions: Readonly<Record<Attack['role'], readonly Callable[]>>;
  /** Incarnations by id. */
  readonly nodes: Map<string, string>;
  readonly leases: Lease[];
}

/** Returns a generator of attacks, which remembers the leases of hostile nodes. */
export async function createAttacks(url: string, dice: Dice): Promise<() => Attack> {
  const functions = { producer: await callables(url, 'producer'), worker: await callables(url, 'worker') };
  const known: Known = { dice, functions, nodes: new Map(), leases: [] };
  return () => dice.pick(kinds)(known);
}

function nodeOf({ dice, nodes }: Known): readonly [string, string] {
  return nodes.size > 0 && dice.chance(0.8) ? dice.pick([...nodes]) : [`evil-${dice.below(12)}`, zero];
}

function leaseOf({ dice, leases }: Known): Lease {
  const odd = (): string => oddValue(dice, 'uuid') ?? zero;
  return leases.length > 0 && dice.chance(0.8) ? dice.pick(leases) : { id: odd(), token: odd() };
}

function insert({ dice }: Known): Attack {
  const names = Object.keys(columns).filter((name) => name !== 'task' && dice.chance(0.25));
  const values = names.map((name) => columnValue(dice, name, columns));
  const casts = names.map((name, n) => `$${n + 2}::${columns[name]}`);
  return {
    role: 'producer',
    text: `insert into ${schema}.queue (${['task', ...names].join()}) values (${['$1', ...casts].join()}) on conflict do nothing`,
    values: [dice.chance(0.9) ? dice.pick(tasks) : oddValue(dice, 'text'), ...values],
  };
}

const sources: Readonly<Record<string, string>> = { jsonb: 'j', interval: 'i', text: 't' };

function insertSelected({ dice }: Known): Attack {
  const names = ['payload', 'attributes', 'trace', 'retry', 'timeout', 'key', 'unique_key'].filter(() =>
    dice.chance(0.3),
  );
  const from = names.map((name) => sources[columns[name] ?? ''] ?? 't');
  return {
    role: 'producer',
    text: `insert into ${schema}.queue (${['task', ...names].join()}) select ${["'fuzz'", ...from].join()} from public.outbox where n = $1`,
    values: [String(dice.below(6))],
  };
}

function enqueueUnique({ dice }: Known): Attack {
  return {
    role: 'producer',
    text: `select * from ${schema}.enqueue_unique($1::jsonb)`,
    values: [dice.chance(0.1) ? oddJson(dice) : oddJobs(dice)],
  };
}

/** Sends the hint of an enqueue, about jobs that may exist; some of their fields are made up. */
function hint({ dice }: Known): Attack {
  const facts = [
    'seq',
    'pg_current_xact_id()::text',
    `date_part('epoch', created) * 1000`,
    'id',
    `'default'`,
    `''`,
    `'nobody'`,
    '1',
    '0',
    `'{}'::jsonb`,
  ];
  const values = facts.map(() => (dice.chance(0.2) ? oddJson(dice, 2) : null));
  const said = facts.map((fact, n) => `coalesce($${n + 1}::json, to_json(${fact}))`);
  const list = Array.from({ length: dice.chance(0.2) ? 3 : 1 }, () => `json_build_array(${said.join()})`);
  return {
    role: 'producer',
    text: `with made as (insert into ${schema}.queue (task) values ('nobody') returning id, seq, created)
      select pg_notify('${schema}:queue', left(json_build_array(${list.join()})::text, 7000)) from made`,
    values,
  };
}

const registration = {
  p_slots: 'integer',
  p_pool: 'text',
  p_heartbeat_ms: 'integer',
  p_lost_after_ms: 'integer',
  p_software: 'text',
};

function register({ dice, nodes }: Known): Attack {
  const id = `evil-${dice.below(12)}`;
  const incarnation = uuid(dice);
  const sound = dice.chance(0.5);
  const more = Object.entries(registration).filter(() => !sound && dice.chance(0.3));
  const named = more.map(([name, type], n) => `, ${name} => $${n + 4}::${type}`).join('');
  return {
    role: 'worker',
    text: `select * from ${schema}.register_node(p_node => $1, p_tasks => $2::jsonb, p_incarnation => $3::uuid${named})`,
    values: [
      id,
      sound ? '{"evil": {"min": 1, "max": 5, "batch": true}}' : oddTasks(dice, ownTasks),
      incarnation,
      ...more.map(([, type]) => oddValue(dice, type)),
    ],
    heard: ([row]) => {
      if (String(row?.['accepted']) === 'true') nodes.set(id, incarnation);
    },
  };
}

function claim(known: Known): Attack {
  const [id, incarnation] = nodeOf(known);
  return {
    role: 'worker',
    text: `select f.id::text, f.token::text from ${schema}.claim($1, $2::uuid, $3::integer) f`,
    values: [id, incarnation, known.dice.pick(['1', '10', '100'])],
    heard: (rows) => {
      for (const { id: job = '', token = '' } of rows) known.leases.push({ id: job, token });
      known.leases.splice(0, Math.max(0, known.leases.length - 300));
    },
  };
}

function settle(known: Known): Attack {
  const { dice } = known;
  const held = Array.from({ length: 1 + dice.below(4) }, () => leaseOf(known));
  return {
    role: 'worker',
    text: `select * from ${schema}.settle($1::uuid[], $2::uuid[], $3::text[], $4::float8[], $5::text[], $6::boolean)`,
    values: [
      arrayOf(held.map(({ id }) => id)),
      arrayOf(held.map(({ token }) => token)),
      arrayOf(held.map(() => dice.pick(['done', 'retry', 'dead', 'snooze', 'cancelled']))),
      arrayOf(held.map(() => oddValue(dice, 'double precision'))),
      arrayOf(held.map(() => oddValue(dice, 'jsonb'))),
      dice.pick(['true', 'false']),
    ],
  };
}

function call(known: Known): Attack {
  const { dice, functions } = known;
  const role = dice.chance(0.1) ? 'producer' : 'worker';
  const { name, types, names } = dice.pick(functions[role]);
  const [p_node, p_incarnation] = nodeOf(known);
  const { id, token } = leaseOf(known);
  const lists = { p_ids: `{${id}}`, p_tokens: `{${token}}` };
  const sound: Readonly<Record<string, string>> = {
    p_node,
    p_incarnation,
    p_id: id,
    p_token: token,
    ...lists,
  };
  const argument = (argumentName: string, type: string): string | null => {
    if (argumentName === 'p_tasks') return oddTasks(dice, ownTasks);
    if (argumentName === 'p_jobs') return oddJobs(dice);
    const given = dice.chance(0.9) ? sound[argumentName] : undefined;
    return given ?? oddValue(dice, type);
  };
  return {
    role,
    text: `select * from ${schema}.${name}(${types.map((type, n) => `${names[n]} => $${n + 1}::${type}`).join()})`,
    values: types.map((type, n) => argument(names[n] ?? '', type)),
  };
}

/**
 * Kinds of attacks, by weight: plain inserts are the most common way in, and function calls have most
 * arguments.
 */
const kinds = [
  insert,
  insert,
  insert,
  insertSelected,
  enqueueUnique,
  hint,
  register,
  claim,
  settle,
  call,
  call,
];

const zero = '00000000-0000-0000-0000-000000000000';

function uuid(dice: Dice): string {
  const hex = Array.from({ length: 32 }, () => dice.below(16).toString(16)).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

function columnValue(dice: Dice, name: string, types: Readonly<Record<string, string>>): string | null {
  if (name === 'retry') return oddRetry(dice);
  if (name === 'trace') return oddTrace(dice);
  if (name === 'attributes' && dice.chance(0.5))
    return `{"a": ${dice.pick(['1', '"x"', 'null', '1e308', '5e-324', oddJson(dice, 2)])}}`;
  return oddValue(dice, types[name] ?? 'text');
}

function oddJobs(dice: Dice): string {
  const jobs = Array.from({ length: 1 + dice.below(4) }, (_none, n) => {
    const names = Object.keys(jobFields).filter(() => dice.chance(0.2));
    const fields = names.map((name) => {
      const value = columnValue(dice, name, jobFields);
      const isJson = jobFields[name] === 'jsonb' || value === null;
      return `${JSON.stringify(name)}: ${isJson ? String(value) : JSON.stringify(value)}`;
    });
    const mode = dice.pick(['keep', 'replace', 'debounce', 'supersede']);
    return `{"n": ${n}, "task": "${dice.pick(tasks)}", "unique_key": "u${dice.below(5)}", "mode": "${mode}", ${['"again": false', ...fields].join()}}`;
  });
  return `[${jobs.join()}]`;
}

/** Reads the functions that a role may call, and their arguments. */
async function callables(url: string, role: string): Promise<readonly Callable[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<Callable>(
      `select p.proname::text as name, array(select format_type(t, null) from unnest(p.proargtypes) with ordinality as x (t, n) order by n) as types,
              p.proargnames::text[] as names
       from pg_proc p where p.pronamespace = $1::regnamespace and has_function_privilege($2, p.oid, 'execute') order by p.oid`,
      [schema, `${schema}_${role}`],
    );
    return rows.filter(({ types }) => !types.includes('pgqueue.queue'));
  } finally {
    await client.end();
  }
}
