import type { Codec } from '@pgqueue/core';
import type { ClaimedJob } from '@pgqueue/core/internal';
import type { AttemptSpan } from '@pgqueue/telemetry/internal';
import { startAttempt, startBundle } from '@pgqueue/telemetry/internal';
import type { Attempt } from './attempt.ts';
import { concealed } from '../codec/concealed.ts';
import type { Conclusion } from './to-settlement.ts';

/**
 * Calls a handler within the span of its attempt. A call for several attempts gets a span that is linked to
 * all of their enqueues.
 */
export function spanned<Returned>(
  attempts: readonly Attempt[],
  run: () => Returned,
  codec?: Codec,
): Returned {
  const [only] = attempts;
  if (only?.span === undefined) return run();
  if (attempts.length === 1) return only.span.run(run);
  const span = concealedSpan(codec, startBundle(attempts.map(({ job }) => job)));
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

/** Opens the span of an attempt; undefined: nobody traces. */
export function spanOfAttempt(codec: Codec | undefined, job: ClaimedJob): AttemptSpan | undefined {
  return concealedSpan(codec, startAttempt(job));
}

/** Keeps the texts of errors out of a span, if the codec encodes them. */
function concealedSpan(codec: Codec | undefined, span: AttemptSpan | undefined): AttemptSpan | undefined {
  if (span === undefined || codec?.errors !== true) return span;
  return {
    run: span.run,
    end: (outcome, error) => span.end(outcome, error === undefined ? undefined : concealed(error)),
  };
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
