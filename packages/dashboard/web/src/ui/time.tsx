import type { ReactNode } from 'react';
import { localTime, relative, span, utc, utcDay } from '../format/times.ts';
import { useNow } from './clock.ts';
import { Nothing } from './text.tsx';

export type Moment = string | number | Date | null | undefined;

interface TimeProps {
  readonly at: Moment;
  /** Format: the time in the viewer's zone, the time since then, or the day in UTC. */
  readonly as?: 'clock' | 'ago' | 'day';
}

/** Shows a time in the viewer's zone; the tooltip has it in UTC, to the millisecond. */
export function Time({ at, as = 'clock' }: TimeProps): ReactNode {
  const nowMs = useNow();
  if (at === null || at === undefined) return <Nothing says="never" />;
  const moment = new Date(at);
  if (Number.isNaN(moment.getTime())) return <Nothing says="unknown" />;
  const local = localTime(moment, nowMs);
  const ago = relative(moment.getTime(), nowMs);
  return (
    <time dateTime={moment.toISOString()} title={`${utc(moment)}\n${as === 'ago' ? local : ago}`}>
      {as === 'ago' ? ago : as === 'day' ? utcDay(moment) : local}
    </time>
  );
}

/** Shows a duration in up to two units; the tooltip has it in milliseconds. */
export function Span({ ms }: { readonly ms: number | null | undefined }): ReactNode {
  if (ms === null || ms === undefined) return <Nothing />;
  return <span title={`${Math.round(ms).toLocaleString('en')} ms`}>{span(ms)}</span>;
}
