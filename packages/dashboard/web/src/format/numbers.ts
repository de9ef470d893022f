const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const tenths = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

/** Formats a number with all its digits: `1,234,567`. */
export function exact(value: number): string {
  return whole.format(value);
}

/** Formats a number in up to four digits: `12,345` becomes `12.3K`. */
export function short(value: number): string {
  return Math.abs(value) < 10_000 ? whole.format(value) : compact.format(value);
}

/** Formats a number with all digits before the point, and one after it: `2,500.3`. */
export function upToTenths(value: number): string {
  return tenths.format(value);
}

/** Formats a rate: `12.4/s`, and below 0.1 a second `3/min`. */
export function perSecond(value: number): string {
  if (value === 0) return '0/s';
  if (value < 0.1) return `${tenths.format(value * 60)}/min`;
  return value < 100 ? `${tenths.format(value)}/s` : `${short(value)}/s`;
}

/** Formats a share from 0 to 1: `12.5 %`. */
export function percent(share: number): string {
  if (share > 0 && share < 0.001) return '< 0.1 %';
  return `${tenths.format(share * 100)} %`;
}

/** Formats a count with its noun: `1 job`, `2,000 jobs`. */
export function counted(value: number, one: string, many: string = `${one}s`): string {
  return `${whole.format(value)} ${value === 1 ? one : many}`;
}

const units = ['B', 'kB', 'MB', 'GB', 'TB'] as const;

/** Formats a size in decimal units: `1.4 MB`. */
export function bytes(value: number): string {
  let size = value;
  let unit = 0;
  while (size >= 1_000 && unit < units.length - 1) {
    size /= 1_000;
    unit += 1;
  }
  return `${tenths.format(size)} ${units[unit]}`;
}
