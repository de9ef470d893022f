const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const tenths = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

/** With all its digits: `1,234,567`. */
export function exact(value: number): string {
  return whole.format(value);
}

/** At most four digits, and the unit that was left out: `12,345` is `12.3K`. */
export function short(value: number): string {
  return Math.abs(value) < 10_000 ? whole.format(value) : compact.format(value);
}

/** `12.4/s`; under one a second by the minute, `30/min`. */
export function perSecond(value: number): string {
  if (value === 0) return '0/s';
  if (value < 0.1) return `${tenths.format(value * 60)}/min`;
  return value < 100 ? `${tenths.format(value)}/s` : `${short(value)}/s`;
}

/** Of a share from 0 to 1: `12.5 %`. */
export function percent(share: number): string {
  if (share > 0 && share < 0.001) return '< 0.1 %';
  return `${tenths.format(share * 100)} %`;
}

/** `1 job`, `2,000 jobs`. */
export function counted(value: number, one: string, many: string = `${one}s`): string {
  return `${whole.format(value)} ${value === 1 ? one : many}`;
}

const units = ['B', 'kB', 'MB', 'GB', 'TB'] as const;

/** `1.4 MB`, by thousands. */
export function bytes(value: number): string {
  let size = value;
  let unit = 0;
  while (size >= 1_000 && unit < units.length - 1) {
    size /= 1_000;
    unit += 1;
  }
  return `${tenths.format(size)} ${units[unit]}`;
}
