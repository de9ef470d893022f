/** A number as people read it: whole ones as they are, others to two digits. */
export function sayNumber(value: number): string {
  return String(Number.isInteger(value) ? value : Number(value.toFixed(2)));
}

const units = [
  { name: 'ms', ms: 1, upToMs: 1_000 },
  { name: 's', ms: 1_000, upToMs: 120_000 },
  { name: 'min', ms: 60_000, upToMs: 7_200_000 },
  { name: 'h', ms: 3_600_000, upToMs: 172_800_000 },
  { name: 'd', ms: 86_400_000, upToMs: Infinity },
] as const;

/** A length of time as people read it: `12 ms`, `1.5 s`, `90 min`. */
export function sayMs(ms: number): string {
  const unit = units.find(({ upToMs }) => Math.abs(ms) < upToMs) ?? units[0];
  const count = Math.round((ms / unit.ms) * 10) / 10;
  return `${unit.ms === 1 ? Math.ceil(ms) : count} ${unit.name}`;
}

/** A moment, to the second: `2027-03-28 01:00:00 UTC`. */
export function sayTime(ms: number): string {
  if (!(Math.abs(ms) <= 8.64e15)) return 'an unknown time';
  return `${new Date(ms).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

/** `tenant acme`; where a gate tells no jobs apart, its name alone. */
export function sayGroup(name: string, value: string | undefined): string {
  if (value === undefined) return name;
  return `${name} ${value === '' ? '""' : value}`;
}

/** What a user's function threw. */
export function sayError(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
