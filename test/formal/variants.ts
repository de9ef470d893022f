import type { Variant } from './spin.ts';

const of = (
  model: Variant['model'],
  expect: Variant['expect'],
  ...all: readonly string[]
): readonly Variant[] =>
  all.map((defines) => ({ model, expect, defines: defines === '' ? [] : defines.split(' ') }));

/**
 * The models as they are, and one variant for each of their rules that is left out, which must fail. Seconds, all together. The comment
 * above each model names its variants.
 *
 * A chaos run meets only the orders that happen to occur. The fences are a few lines of SQL each, small enough to search every order.
 * Spin needs one Debian package and a C compiler; TLA+ would need more. A change of a modelled SQL function needs a change of its step.
 */
export const variants: readonly Variant[] = [
  ...of(
    'lease',
    'holds',
    '',
    'LOST=0 RESETS=0 CANCELS=1 SNOOZES=1 RELEASES=1',
    'EDGE LOST=0',
    'POISON',
    'SPARES LOST=0',
    'POISON SPARES',
  ),
  ...of('lease', 'assertion', 'NO_FENCE', 'STALE_EXTEND', 'KEEPS_TOKEN', 'TWO_STATEMENTS', 'LATE_LIMIT'),
  ...of(
    'lease',
    'cycle',
    'TWO_STATEMENTS EDGE UNWATCHED LOST=0 RESETS=0',
    'POISON NO_CRASH_LIMIT',
    'POISON SPARES FORGETS',
  ),
  ...of('leader', 'holds', 'LOST=1 EXPIRIES=1'),
  ...of('leader', 'assertion', 'NO_EPOCH_CHECK', 'NO_LOCK', 'SAME_REIGN', 'SAME_NAME'),
  ...of('leader', 'cycle', 'NO_EXPIRY LOST=1 EXPIRIES=0'),
  ...of('transaction', 'holds', 'LOST=1 EXPIRIES=1'),
  ...of('transaction', 'assertion', 'UNFENCED', 'SEPARATE', 'SETTLES'),
];

/** The same models with more of everything that can go wrong: minutes. */
export const larger: readonly Variant[] = [
  ...of('lease', 'holds', 'LOST=1 RESETS=1 CANCELS=1 SNOOZES=1 RELEASES=1', 'LOST=2 RESETS=1 CANCELS=1'),
  ...of('leader', 'holds', ''),
  ...of('transaction', 'holds', ''),
];
