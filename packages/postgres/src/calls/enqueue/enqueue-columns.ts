import type { JobRow } from '@pgqueue/core/internal';

/** Defaults of QUEUE, and of the SQL functions that take jobs as JSON. */
export const tableDefaults = {
  queue: 'default',
  key: '',
  priority: 0,
  maxTries: 20,
  maxCrashes: 3,
  payloadVersion: 1,
} as const;

/** One column of QUEUE, with the values that its expression reads. */
export interface Column {
  readonly name: string;
  readonly sources: readonly {
    readonly name: string;
    readonly type: string;
    readonly value: (row: JobRow) => string | null;
  }[];
  readonly expression: (source: (name: string) => string) => string;
  readonly isDefault?: (row: JobRow) => boolean;
  /** The value for COPY. Null: COPY can't express the column. Default: its one source. */
  readonly copied?: ((row: JobRow) => string | null) | null;
}

type Value = string | number | null;

const plain = (name: string, type: string, value: (row: JobRow) => Value, defaultValue?: Value): Column => ({
  name,
  sources: [{ name, type, value: (row) => textOf(value(row)) }],
  expression: (source) => source(name),
  ...(defaultValue === undefined ? {} : { isDefault: (row) => value(row) === defaultValue }),
});

/** Columns of QUEUE in the order of an insert. */
const columns: readonly Column[] = [
  plain('id', 'uuid', (row) => row.id),
  plain('task', 'text', (row) => row.task),
  plain('payload', 'jsonb', (row) => row.payload),
  plain('queue', 'text', (row) => row.queue, tableDefaults.queue),
  plain('key', 'text', (row) => row.key, tableDefaults.key),
  plain('priority', 'integer', (row) => row.priority, tableDefaults.priority),
  {
    ...plain('attributes', 'jsonb', (row) => JSON.stringify(row.attributes)),
    isDefault: (row) => Object.keys(row.attributes).length === 0,
  },
  plain('expires_at', 'timestamptz', (row) => row.expiresAt?.toISOString() ?? null, null),
  plain('max_tries', 'smallint', (row) => row.maxTries, tableDefaults.maxTries),
  plain('max_crashes', 'smallint', (row) => row.maxCrashes, tableDefaults.maxCrashes),
  plain('retry', 'jsonb', (row) => jsonOf(row.retry), null),
  plain('payload_version', 'integer', (row) => row.payloadVersion, tableDefaults.payloadVersion),
  plain('trace', 'jsonb', (row) => jsonOf(row.trace), null),
  {
    ...plain('timeout', 'float8', (row) => row.timeoutMs, null),
    expression: (source) => `${source('timeout')} * interval '1 millisecond'`,
    copied: (row) => (row.timeoutMs === null ? null : `${row.timeoutMs} milliseconds`),
  },
  {
    // a time that has passed makes the job pending at once, so that the scheduler need not promote it
    name: 'run_after',
    sources: [
      { name: 'delay', type: 'float8', value: (row) => textOf(row.delayMs) },
      { name: 'at', type: 'timestamptz', value: (row) => row.runAfter?.toISOString() ?? null },
    ],
    expression: (source) =>
      `case when ${source('delay')} > 0 then clock_timestamp() + ${source('delay')} * interval '1 millisecond'
            when ${source('at')} > clock_timestamp() then ${source('at')} end`,
    isDefault: (row) => row.delayMs === null && row.runAfter === null,
    // computed by the database's clock
    copied: null,
  },
];

function textOf(value: Value): string | null {
  return value === null ? null : String(value);
}

function jsonOf(value: object | null): string | null {
  return value === null ? null : JSON.stringify(value);
}

/** Returns the columns in which at least one row differs from the default. */
export function columnsOf(rows: readonly JobRow[]): readonly Column[] {
  return columns.filter(({ isDefault }) => isDefault === undefined || !rows.every(isDefault));
}
