import type { Shape } from '../../options/options.ts';
import { optional } from '../../options/options.ts';
import { aName, checkPart } from '../check-part.ts';
import type { Gate } from '../gate.ts';
import type { DatabaseHealth, Snapshot } from '../snapshot.ts';
import { bucketGate } from './lib/bucket-gate.ts';
import { anAmount } from './lib/group.ts';
import { sayMs, sayNumber } from './lib/format.ts';

/** From when on the database counts as unwell, and what happens then: see {@link databaseHealth}. */
export interface DatabaseHealthOptions {
  /** Default `database_health`. */
  readonly name?: string;
  /** The oldest snapshot that some session holds may be so old: it keeps vacuum from removing dead rows. */
  readonly oldestSnapshotMs?: number;
  /** Dead rows that the queue's tables may have. */
  readonly deadRows?: number;
  /** How far the slowest standby may be behind. */
  readonly replicationLagMs?: number;
  /** Jobs a second, of all queues together, while one of them is above; a second's worth at once. Default 0: none. */
  readonly slowTo?: number;
}

/** All jobs are alike to it. */
const oneGroup = { of: () => '', lane: true } as const;

const shape: Shape<DatabaseHealthOptions> = {
  name: optional(aName),
  oldestSnapshotMs: optional(anAmount()),
  deadRows: optional(anAmount()),
  replicationLagMs: optional(anAmount()),
  slowTo: optional(anAmount()),
};

/**
 * Slows the queue down while the database has trouble that more work would make worse. Judged by what was read last; what
 * could not be read is taken to be well.
 * @throws {PgQueueError} `configuration`
 */
export function databaseHealth(options: DatabaseHealthOptions): Gate {
  checkPart('gate', 'databaseHealth', {
    options,
    shape,
    further: (given) =>
      limits.some(({ field }) => given[field] !== undefined)
        ? []
        : [`one of ${limits.map(({ field }) => field).join(', ')} must be given`],
  });
  const { name = 'database_health', slowTo = 0 } = options;
  const perSecond = Math.min(slowTo, Number.MAX_SAFE_INTEGER);
  const slow = { perSecond, burst: perSecond === 0 ? 0 : Math.max(1, perSecond) };
  const gate = bucketGate(name, (snapshot) => {
    const trouble = troubleOf(snapshot, options);
    if (trouble.length === 0) return null;
    const pace = slowTo === 0 ? 'nothing goes' : `slowed to ${sayNumber(slowTo)} jobs a second`;
    return {
      groupOf: () => '',
      costsOf: null,
      rateOf: () => slow,
      label: () => name,
      explain: () => `the database is not well, ${pace}: ${trouble.join('; ')}`,
      held: 'hold_lane',
    };
  });
  return {
    ...gate,
    onError: 'ignore',
    needs: { health: true },
    soft: true,
    groups: oneGroup,
    tellsTime: true,
  };
}

type Field = Exclude<keyof DatabaseHealth, 'readMs'>;

const limits: readonly { readonly field: Field; readonly say: (value: number, limit: number) => string }[] = [
  {
    field: 'oldestSnapshotMs',
    say: (ms, limit) =>
      `a session holds a snapshot that is ${sayMs(ms)} old, ${sayMs(ms - limit)} above ${sayMs(limit)}`,
  },
  {
    field: 'deadRows',
    say: (rows, limit) => `its tables have ${rows} dead rows, ${rows - limit} above ${limit}`,
  },
  {
    field: 'replicationLagMs',
    say: (ms, limit) => `a standby is ${sayMs(ms)} behind, ${sayMs(ms - limit)} above ${sayMs(limit)}`,
  },
];

function troubleOf({ health }: Snapshot, options: DatabaseHealthOptions): readonly string[] {
  return limits.flatMap(({ field, say }) => {
    const [value, limit] = [health?.[field] ?? null, options[field]];
    return value === null || limit === undefined || value <= limit ? [] : [say(value, limit)];
  });
}
