/** Formats a number for people: integers as they are, others with up to two decimals. */
export function sayNumber(value: number): string {
  return String(Number.isInteger(value) ? value : Number(value.toFixed(2)));
}

/** A rate in the unit of time that gives the most readable number. */
export interface ReadableRate {
  readonly count: number;
  readonly unit: 's' | 'm' | 'h' | 'd';
}

const rateUnits = [
  { unit: 's', seconds: 1 },
  { unit: 'm', seconds: 60 },
  { unit: 'h', seconds: 3_600 },
  { unit: 'd', seconds: 86_400 },
] as const;

/**
 * Picks the shortest unit in which the rate is at least 1 and has at most three decimals: `5/m`, not
 * `0.0833/s`. If there is none, the shortest unit in which the rate is at least 1, and else days.
 */
export function readableRate(perSecond: number): ReadableRate {
  const all = rateUnits.map(({ unit, seconds }) => ({
    unit,
    count: Number((perSecond * seconds).toPrecision(9)),
  }));
  const fair = all.filter(({ count }) => count >= 1);
  return (
    fair.find(({ count }) => Math.abs(count * 1_000 - Math.round(count * 1_000)) < 1e-6 * count * 1_000) ??
    fair[0] ?? { unit: 'd', count: perSecond * 86_400 }
  );
}

const units = [
  { name: 'ms', ms: 1, upToMs: 1_000 },
  { name: 's', ms: 1_000, upToMs: 120_000 },
  { name: 'min', ms: 60_000, upToMs: 7_200_000 },
  { name: 'h', ms: 3_600_000, upToMs: 172_800_000 },
  { name: 'd', ms: 86_400_000, upToMs: Infinity },
] as const;

/** Formats a duration: `12 ms`, `1.5 s`, `90 min`. */
export function sayMs(ms: number): string {
  const unit = units.find(({ upToMs }) => Math.abs(ms) < upToMs) ?? units[0];
  const count = Math.round((ms / unit.ms) * 10) / 10;
  return `${unit.ms === 1 ? Math.ceil(ms) : count} ${unit.name}`;
}

const inWords = { s: 'a second', m: 'a minute', h: 'an hour', d: 'a day' } as const;

/** Formats a rate: `5 a minute`, or with its unit of count, `5 tokens a minute`. */
export function sayRate(perSecond: number, what: string): string {
  const { count, unit } = readableRate(perSecond);
  const number = count >= 0.01 ? sayNumber(count) : String(Number(count.toPrecision(2)));
  return `${number}${what} ${inWords[unit]}`;
}

/** Formats a time to the second: `2027-03-28 01:00:00 UTC`. */
export function sayTime(ms: number): string {
  if (!(Math.abs(ms) <= 8.64e15)) return 'an unknown time';
  return `${new Date(ms).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

/** Names a group: `tenant acme`, `the empty key`. Without a value, the name alone. */
export function sayGroup(name: string, value: string | undefined): string {
  if (value === undefined) return name;
  return value === '' ? `the empty ${name}` : `${name} ${value}`;
}

/** Returns the message of an error that a user's function threw. */
export function sayError(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
