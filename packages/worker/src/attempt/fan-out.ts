import type { Codec, Outcome, Task } from '@pgqueue/core';
import { encodedRows, isOutcome } from '@pgqueue/core/internal';
import { addedRows } from '../flow/added-jobs.ts';
import type { Ending } from '../lease/ending.ts';
import type { Attempt } from './attempt.ts';
import { needNames, tracedRows } from './job-port.ts';
import { checkReturned } from '../lease/result.ts';
import { spanned } from './spans.ts';

/** Reports whether a handler has returned, or thrown, `fanOut`, in this process or in one of its own. */
export function fansOut(ending: Ending): boolean {
  return ending.kind === 'fan_out' || fanOutOf(ending) !== undefined;
}

/**
 * Checks the jobs that an attempt adds as it ends, and its result. An ending with invalid ones becomes an error of
 * the handler. Any other ending is returned as it is.
 */
export async function checkFanOut(
  { task, codec }: { readonly task: Task; readonly codec: Codec | undefined },
  attempt: Attempt,
  ending: Ending,
): Promise<Ending> {
  const given = ending.kind === 'fan_out' ? ending : fanOutOf(ending);
  if (given === undefined) return ending;
  try {
    const { result } = given;
    await checkReturned(task, result);
    const adding = { key: attempt.job.key, needs: needNames(task) };
    const plain = 'rows' in given ? given.rows : await addedRows(given.jobs, adding, 'fanOut');
    const rows = encodedRows(codec, plain);
    const carried = await spanned([attempt], () =>
      tracedRows(attempt, rows, (traced) => Promise.resolve(traced)),
    );
    return { kind: 'fan_out', rows: carried, result };
  } catch (error) {
    return { kind: 'threw', error };
  }
}

function fanOutOf(ending: Ending): Extract<Outcome<unknown>, { readonly kind: 'fan_out' }> | undefined {
  if (ending.kind !== 'returned' && ending.kind !== 'threw') return undefined;
  const outcome = ending.kind === 'returned' ? ending.value : ending.error;
  return isOutcome(outcome) && outcome.kind === 'fan_out' ? outcome : undefined;
}
