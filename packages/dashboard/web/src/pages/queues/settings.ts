import type { QueueAction, QueueSettings } from '../../../../src/contract.ts';

const dayMs = 86_400_000;

/** Settings as typed; empty means none. */
export type Draft = Readonly<Record<FieldName, number | string>>;

export type FieldName =
  | 'concurrency'
  | 'keyConcurrency'
  | 'rate'
  | 'rateBurst'
  | 'keyRate'
  | 'keyRateBurst'
  | 'keyPending'
  | 'weight'
  | 'retentionDays'
  | 'pool';

export interface Field {
  readonly name: FieldName;
  readonly label: string;
  readonly hint: string;
  readonly min?: number;
  readonly max?: number;
  readonly decimals?: boolean;
}

export const fields: readonly Field[] = [
  { name: 'concurrency', label: 'At once', hint: 'jobs in flight; 0: none', min: 0 },
  { name: 'keyConcurrency', label: 'At once, each key', hint: 'jobs in flight', min: 0 },
  { name: 'rate', label: 'Rate', hint: 'jobs a second', min: 0, decimals: true },
  { name: 'rateBurst', label: 'Burst', hint: 'jobs at one time', min: 1, decimals: true },
  { name: 'keyRate', label: 'Rate, each key', hint: 'jobs a second', min: 0, decimals: true },
  { name: 'keyRateBurst', label: 'Burst, each key', hint: 'jobs at one time', min: 1, decimals: true },
  {
    name: 'keyPending',
    label: 'Waiting, each key',
    hint: 'more are refused at enqueue',
    min: 1,
    max: 100_000,
  },
  { name: 'weight', label: 'Weight', hint: 'its share beside other queues', min: 0, decimals: true },
  { name: 'retentionDays', label: 'History kept', hint: 'days; 0 keeps none', min: 0, decimals: true },
];

export function draftOf(settings: QueueSettings): Draft {
  return {
    concurrency: settings.concurrency ?? '',
    keyConcurrency: settings.keyConcurrency ?? '',
    rate: settings.rate?.perSecond ?? '',
    rateBurst: settings.rate?.burst ?? '',
    keyRate: settings.keyRate?.perSecond ?? '',
    keyRateBurst: settings.keyRate?.burst ?? '',
    keyPending: settings.keyPending ?? '',
    weight: settings.weight,
    retentionDays: settings.retentionMs / dayMs,
    pool: settings.pool,
  };
}

type Changes = QueueAction['settings'];

/** Returns only the settings that differ, so that concurrent changes of others are kept. */
export function changesOf(before: Draft, after: Draft): Changes {
  const differs = (...names: readonly FieldName[]): boolean =>
    names.some((name) => before[name] !== after[name]);
  const number = (name: FieldName): number | null => (after[name] === '' ? null : Number(after[name]));
  const rate = (perSecond: FieldName, burst: FieldName): Exclude<Changes['rate'], undefined> => {
    const value = number(perSecond);
    if (value === null) return null;
    const most = number(burst);
    return most === null ? { perSecond: value } : { perSecond: value, burst: most };
  };
  const retention = number('retentionDays');
  return {
    ...(differs('concurrency') && { concurrency: number('concurrency') }),
    ...(differs('keyConcurrency') && { keyConcurrency: number('keyConcurrency') }),
    ...(differs('rate', 'rateBurst') && { rate: rate('rate', 'rateBurst') }),
    ...(differs('keyRate', 'keyRateBurst') && { keyRate: rate('keyRate', 'keyRateBurst') }),
    ...(differs('keyPending') && { keyPending: number('keyPending') }),
    ...(differs('weight') && { weight: number('weight') }),
    ...(differs('retentionDays') && {
      retentionMs: retention === null ? null : Math.round(retention * dayMs),
    }),
    ...(differs('pool') && { pool: after.pool === '' ? null : String(after.pool) }),
  };
}
