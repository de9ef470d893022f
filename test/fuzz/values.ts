// Values that a hostile or careless writer of SQL may put into a column or an argument, by type. All are
// texts that the database casts.
import type { Random } from '@pgqueue/lab';
import { hostileTexts, nested } from '../support/hostile.ts';

/** Random choices of one run, drawn from its seed. */
export interface Dice {
  /** 0 to count - 1. */
  readonly below: (count: number) => number;
  readonly pick: <Value>(values: readonly Value[]) => Value;
  readonly chance: (probability: number) => boolean;
}

export function diceOf({ below, uniform }: Random): Dice {
  return {
    below,
    pick: (values) => {
      const value = values[below(values.length)];
      if (value === undefined) throw new Error('nothing to pick from');
      return value;
    },
    chance: (probability) => uniform() < probability,
  };
}

/** Returns an odd value of the type; null for SQL's NULL. */
export function oddValue(dice: Dice, type: string): string | null {
  if (dice.chance(0.05)) return null;
  if (type === 'jsonb') return oddJson(dice);
  if (type.endsWith('[]')) return oddArray(dice, type.slice(0, -2));
  return dice.pick(scalars[type] ?? ['']);
}

/** Hostile texts without the characters that PostgreSQL does not store. */
const texts = hostileTexts.map((text) => text.replaceAll('\u0000', '').toWellFormed());

const scalars: Readonly<Record<string, readonly string[]>> = {
  text: [
    ...texts,
    'evil',
    'k'.repeat(100),
    'k'.repeat(101),
    '\u{1f600}'.repeat(200),
    '\u{1f600}'.repeat(500),
  ],
  uuid: [
    '00000000-0000-0000-0000-000000000000',
    'ffffffff-ffff-ffff-ffff-ffffffffffff',
    '00000000-0000-7000-8000-000000000001',
    'ffffffff-ffff-7fff-bfff-ffffffffffff',
  ],
  boolean: ['true', 'false'],
  integer: ['0', '1', '-1', '2147483647', '-2147483648', '1000', '99999999999'],
  smallint: ['0', '1', '2', '-1', '32767', '1000', '1001', '-32768'],
  bigint: ['0', '1', '-1', '9223372036854775807', '-9223372036854775808', '4503599627370497'],
  'double precision': [
    '0',
    '-0',
    '1',
    '-1',
    'NaN',
    'Infinity',
    '-Infinity',
    '1e308',
    '5e-324',
    '3.2e11',
    '1e15',
  ],
  interval: [
    '0',
    '1 microsecond',
    '1 millisecond',
    '-1 day',
    '1 mon -28 days -12 hours',
    '1 mon -30 days -1 hour',
    '-1 mon 31 days',
    '10 years',
    '11 years',
    '300000 years',
    '178000000 years',
    '2147483647 months',
    '2147483647 days',
    '2562047788 hours',
  ],
  'timestamp with time zone': [
    'infinity',
    '-infinity',
    '294276-12-31 23:59:59.999999',
    '4714-11-24 BC',
    '0001-01-01',
    '9999-12-31',
    '10000-01-01',
    '275760-09-13 00:00:00.001',
    '1970-01-01',
    '2026-02-28 23:59:60+15:59',
    'now',
    'tomorrow',
  ],
};

const numbers = [
  '1e131071',
  '-1e131071',
  '1e400',
  '1e-400',
  '0e-16383',
  '1e-16383',
  '5e-324',
  '1.7976931348623157e308',
  '9007199254740993',
  '-0',
  '9'.repeat(400),
];

/**
 * Returns JSON text, at most some 10 MB as PostgreSQL writes it: a gigabyte would take seconds for each
 * value.
 */
export function oddJson(dice: Dice, depth = 0): string {
  const kind = dice.below(depth > 2 ? 6 : 13);
  switch (kind) {
    case 0:
      return dice.pick(['null', 'true', 'false', '[]', '{}', '""', '[[]]', '[{}]', '{"": null}', '1', '"a"']);
    case 1:
      return dice.pick(numbers);
    case 2:
    case 3:
      return JSON.stringify(dice.pick(texts));
    case 4:
      return dice.pick([
        '{"__proto__": {"a": 1}}',
        '{"constructor": {"prototype": null}}',
        '{"toString": 1, "valueOf": null}',
        '{"then": "x"}',
      ]);
    case 5:
      return `{"a": ${dice.pick(numbers)}, "b": ${JSON.stringify(dice.pick(texts))}}`;
    case 6:
      return JSON.stringify(nested(dice.pick([10, 499, 500, 501, 2_000, 4_000])));
    case 7:
      return `[${Array.from({ length: dice.pick([3, 50]) }, () => dice.pick(numbers)).join()}]`;
    case 8:
      return JSON.stringify({ a: 'x'.repeat(dice.pick([300, 4_000, 16_000, 200_000, 393_000, 400_000])) });
    case 9:
      return JSON.stringify(Array.from({ length: dice.pick([100, 20_000]) }, (_none, n) => n));
    case 10:
      return `{${Array.from({ length: dice.pick([5, 300]) }, (_none, n) => `"k${n}": ${dice.pick(numbers)}`).join()}}`;
    case 11:
      return `[${Array.from({ length: dice.below(5) }, () => oddJson(dice, depth + 1)).join()}]`;
    default:
      return `{${Array.from({ length: dice.below(5) }, (_none, n) => `"${dice.pick(['min', 'max', 'mode', 'kind', 'message', 'a', ''])}${n}": ${oddJson(dice, depth + 1)}`).join()}}`;
  }
}

/** Returns the text of an SQL array. */
export function arrayOf(values: readonly (string | null)[]): string {
  return `{${values.map((value) => (value === null ? 'NULL' : `"${value.replaceAll(/["\\]/g, String.raw`\$&`)}"`)).join()}}`;
}

function oddArray(dice: Dice, type: string): string {
  const one = (): string => arrayOf([oddValue(dice, type)]);
  return dice.pick<() => string>([
    () => '{}',
    () => '{NULL}',
    one,
    () => arrayOf([oddValue(dice, type), oddValue(dice, type), oddValue(dice, type)]),
    () => `{${one()},${one()}}`,
    () => `[5:5]=${one()}`,
    () => arrayOf(Array.from({ length: 3_000 }, () => dice.pick(scalars[type] ?? ['1']))),
  ])();
}

/** Returns a node's report of its tasks, odd or valid. `names`: tasks that it may name. */
export function oddTasks(dice: Dice, names: readonly string[]): string {
  if (dice.chance(0.3)) return oddJson(dice);
  const range = (): string =>
    dice.pick<() => string>([
      () => '{"min": 1, "max": 1}',
      () => '{"min": 1, "max": 2147483647, "timeoutMs": null, "batch": true}',
      () => '{"min": 1, "max": 1, "timeoutMs": 0.001, "isolated": true}',
      () => `{"min": 1, "max": 1, "timeoutMs": ${dice.pick([...numbers, '3.2e11', '1'])}}`,
      () => `{"min": ${dice.pick(numbers)}, "max": ${dice.pick(numbers)}}`,
      () => `{"min": 1, "max": 1, "batch": ${oddJson(dice, 2)}, "isolated": ${oddJson(dice, 2)}}`,
      () => oddJson(dice, 1),
    ])();
  return `{${names.map((name) => `${JSON.stringify(name)}: ${range()}`).join()}}`;
}

/** Column `retry`. */
export function oddRetry(dice: Dice): string {
  if (dice.chance(0.4)) return oddJson(dice);
  const number = (): string => dice.pick([...numbers, '0', '1', '0.5', '1000', '3.2e11', '"1"', 'null']);
  return `{"kind": ${dice.pick(['"fixed"', '"linear"', '"exponential"', '"expo"', 'null', '1'])}, "baseMs": ${number()}, "factor": ${number()}, "maxMs": ${number()}, "jitter": ${number()}}`;
}

/** Column `trace`. */
export function oddTrace(dice: Dice): string {
  const parent = dice.pick([
    '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    'ff-0-0-0',
    '',
    ...texts,
  ]);
  const state = dice.pick([
    '"a=b"',
    '{}',
    '[]',
    '1',
    'null',
    JSON.stringify('a=b,'.repeat(300)),
    oddJson(dice, 2),
  ]);
  return dice.chance(0.2)
    ? oddJson(dice)
    : `{"traceparent": ${JSON.stringify(parent)}, "tracestate": ${state}}`;
}
