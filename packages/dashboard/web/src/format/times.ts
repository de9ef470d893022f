const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** Formats a duration in up to two units: `850 ms`, `2.3 s`, `12 s`, `4 m 5 s`, `3 h 12 m`, `2 d 4 h`. */
export function span(ms: number): string {
  const value = Math.abs(ms);
  if (value < 1) return '0 ms';
  if (value < second) return `${Math.round(value)} ms`;
  if (value < minute) {
    const seconds = value / second;
    return `${seconds < 10 ? seconds.toFixed(1).replace(/\.0$/, '') : Math.floor(seconds)} s`;
  }
  if (value < hour) return pair(value, { big: minute, small: second, names: ['m', 's'] });
  if (value < day) return pair(value, { big: hour, small: minute, names: ['h', 'm'] });
  return pair(value, { big: day, small: hour, names: ['d', 'h'] });
}

interface Units {
  readonly big: number;
  readonly small: number;
  readonly names: readonly [string, string];
}

function pair(value: number, { big, small, names }: Units): string {
  const rest = Math.floor((value % big) / small);
  const whole = `${Math.floor(value / big)} ${names[0]}`;
  return rest === 0 ? whole : `${whole} ${rest} ${names[1]}`;
}

function unitOf(ms: number): { readonly unit: number; readonly name: string } {
  if (ms < minute) return { unit: second, name: 's' };
  if (ms < hour) return { unit: minute, name: 'm' };
  return ms < day ? { unit: hour, name: 'h' } : { unit: day, name: 'd' };
}

/**
 * Formats the time between two moments in one unit: `3 m ago`, `in 12 s`, `now`. Past times are rounded down,
 * future ones up, so that nothing comes later than it says.
 */
export function relative(atMs: number, nowMs: number): string {
  const gap = Math.abs(atMs - nowMs);
  if (gap < second) return 'now';
  const { unit, name } = unitOf(gap);
  return atMs < nowMs ? `${Math.floor(gap / unit)} ${name} ago` : `in ${Math.ceil(gap / unit)} ${name}`;
}

// 24-hour clock: columns stay narrow, and an afternoon is not mistaken for a morning
const hourCycle = 'h23';
const clock = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle,
});
const date = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' });
const dateWithYear = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const hourMinute = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle });

/** Formats a time in the viewer's zone: without the date on the day of `nowMs`, with it otherwise. */
export function localTime(at: Date, nowMs: number): string {
  const now = new Date(nowMs);
  if (at.toDateString() === now.toDateString()) return clock.format(at);
  const day = at.getFullYear() === now.getFullYear() ? date : dateWithYear;
  return `${day.format(at)}, ${hourMinute.format(at)}`;
}

const dayInUtc = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'UTC' });

/** Formats a day that begins and ends in UTC: `Nov 21, 2026`. */
export function utcDay(at: Date): string {
  return dayInUtc.format(at);
}

export function hourAndMinute(atMs: number): string {
  return hourMinute.format(new Date(atMs));
}

/** Formats a time in UTC, the same for every viewer: `2026-11-21 18:40:12.123 UTC`. */
export function utc(at: Date): string {
  return Number.isNaN(at.getTime())
    ? 'invalid time'
    : at.toISOString().replace('T', ' ').replace('Z', ' UTC');
}

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

export function viewersZone(): string {
  return zone;
}
