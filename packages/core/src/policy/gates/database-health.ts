import type { Shape } from '../../options/options.ts';
import { optional } from '../../options/options.ts';
import { aName, checkPart } from '../check-part.ts';
import { madeWith } from '../made-with.ts';
import type { Gate } from '../gate.ts';
import type { DatabaseHealth, Snapshot } from '../snapshot.ts';
import { bucketGate } from './state/bucket-gate.ts';
import { anAmount } from './state/group.ts';
import { sayMs, sayNumber } from './state/format.ts';

/** Options of {@link databaseHealth}: the thresholds, and the pace while one of them is exceeded. */
export interface DatabaseHealthOptions {
  /** Default `database_health`. */
  readonly name?: string;
  /**
   * Highest age, in milliseconds, of the oldest snapshot that a session holds. Such a snapshot keeps vacuum
   * from removing dead rows.
   */
  readonly oldestSnapshotMs?: number;
  /** Highest number of dead rows in the queue's tables. */
  readonly deadRows?: number;
  /** Highest lag of the slowest standby, in milliseconds. */
  readonly replicationLagMs?: number;
  /**
   * Jobs a second, over all queues together, while a threshold is exceeded. Up to one second's worth may go
   * at once, and at least one job. Default 0: no job goes.
   */
  readonly slowTo?: number;
}

/** Puts all jobs into one group. */
const oneGroup = { of: () => '', lane: true } as const;

const shape: Shape<DatabaseHealthOptions> = {
  name: optional(aName),
  oldestSnapshotMs: optional(anAmount()),
  deadRows: optional(anAmount()),
  replicationLagMs: optional(anAmount()),
  slowTo: optional(anAmount()),
};

/**
 * Slows the queue down while the database has trouble that more work would make worse. The gate judges by the
 * last reading. A value that could not be read counts as healthy.
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
  return madeWith(options, {
    ...gate,
    onError: 'ignore',
    needs: { health: true },
    soft: true,
    groups: oneGroup,
    tellsTime: true,
  });
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
