import { startBundle } from '@pgqueue/telemetry/internal';
import type { Attempt } from './attempt.ts';
import type { Conclusion } from './to-settlement.ts';

/**
 * Calls a handler within the span of its attempt. A call for several attempts gets a span that is linked to
 * all of their enqueues.
 */
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

/**
 * Ends the span of an attempt. The database's verdict comes later, and does not change how the attempt went.
 */
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
