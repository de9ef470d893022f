import { startBundle } from '@pgqueue/telemetry';
import type { Attempt } from './attempt.ts';
import type { Conclusion } from './to-settlement.ts';

/** Calls a handler below the span of its attempt; of several, below one that is linked to all of their enqueues. */
export function spanned<Returned>(attempts: readonly Attempt[], run: () => Returned): Returned {
  const [only] = attempts;
  if (only?.span === undefined) return run();
  if (attempts.length === 1) return only.span.run(run);
  const span = startBundle(attempts.map(({ job }) => job));
  if (span === undefined) return run();
  try {
    const returned = span.run(run);
    Promise.resolve(returned).then(
      () => span.end('returned'),
      (error: unknown) => span.end('threw', error),
    );
    return returned;
  } catch (error) {
    span.end('threw', error);
    throw error;
  }
}

/** The attempt is over; what the database makes of it comes later, and changes nothing of how it went. */
export function endSpan({ span }: Attempt, conclusion: Conclusion): void {
  if (span === undefined) return;
  switch (conclusion.kind) {
    case 'settle': {
      const { settlement, error } = conclusion;
      const failed = settlement.outcome === 'retry' || settlement.outcome === 'dead';
      return failed
        ? span.end(settlement.outcome, error ?? new Error(settlement.outcome))
        : span.end(settlement.outcome);
    }
    case 'release':
      return span.end('released');
    case 'crash':
      return span.end('crashed', new Error(conclusion.why));
  }
}
