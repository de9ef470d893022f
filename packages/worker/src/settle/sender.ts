import { setTimeout as delay } from 'node:timers/promises';
import type { Codec, Observer } from '@pgqueue/core';
import { errorData, retryPauseMs } from '@pgqueue/core/internal';
import type { Hints, SettleRequest, Target, SettleVerdict } from '@pgqueue/postgres/internal';
import {
  fanOut,
  isOfRow,
  isTransient,
  lockedState,
  settle,
  settleAndHint,
  sqlState,
  unlockedJobs,
} from '@pgqueue/postgres/internal';
import { encodedResult, keptError } from '../codec/encoding.ts';
import type { Ended } from '../lease/ended.ts';

/** Settles attempts with one statement, repeated until the database has answered. */
export type Send = (batch: readonly Ended[]) => Promise<void>;

interface SenderParts {
  readonly database: Target;
  readonly observe: Observer;
  /** Encodes what is stored in place of a result or an error that the database did not take. */
  readonly codec: Codec | undefined;
  readonly hints: Hints;
  readonly abandoned: AbortSignal;
  /** Attempts whose replies may have been lost on the way back. */
  readonly unanswered: WeakSet<Ended>;
  readonly onFailed: () => void;
  /** Called with attempts that are not settled, because another transaction has locked their jobs. */
  readonly onLocked: (ended: readonly Ended[]) => void;
}

/**
 * Most settlements in a statement that carries the hint itself; its NOTIFY may hold up other commits for the
 * time of this one.
 */
const ridersMax = 4;

/** Settles once, and sends the hint with the statement or after it. */
function createAccept(
  database: Target,
  hints: Hints,
): (settlements: readonly SettleRequest[], repeat: boolean) => Promise<ReadonlyMap<string, SettleVerdict>> {
  return async (settlements, repeat) => {
    const [first] = settlements;
    if (first?.jobs !== undefined) {
      const verdicts = await fanOut(database, first, { repeat });
      hints.send(endedOf(settlements, verdicts));
      return verdicts;
    }
    if (repeat || settlements.length > ridersMax || !hints.ride()) {
      const verdicts = await settle(database, settlements, { repeat, impatient: true });
      hints.send(endedOf(settlements, verdicts));
      return verdicts;
    }
    let sent = false;
    let ended: readonly string[] | undefined;
    try {
      const { verdicts, hinted } = await settleAndHint(database, settlements);
      [sent, ended] = [hinted, endedOf(settlements, verdicts)];
      return verdicts;
    } finally {
      hints.rode(sent, ended);
    }
  };
}

/** Most jobs that a hint names. */
const toldMax = 16;

/** Returns the ids of the jobs if all are done. Undefined: some wait again, or there are more than 16. */
function endedOf(
  settlements: readonly SettleRequest[],
  verdicts: ReadonlyMap<string, SettleVerdict>,
): readonly string[] | undefined {
  if (settlements.length > toldMax) return undefined;
  const ids = settlements.map(({ id }) => id);
  return ids.every((id) => verdicts.get(id) === 'done') ? ids : undefined;
}

/** Sends attempts until the database has answered for each whose job is not locked; never rejects. */
export function createSender(parts: SenderParts): Send {
  const { database, observe, codec, hints, abandoned, unanswered, onFailed, onLocked } = parts;
  const accept = createAccept(database, hints);
  const send = async (given: readonly Ended[], instead: readonly Instead[]): Promise<void> => {
    let batch = given;
    for (let failures = 1; ; failures += 1) {
      try {
        const verdicts = await accept(
          batch.map(({ settlement }) => settlement),
          batch.some((ended) => unanswered.has(ended)),
        );
        for (const { settlement, onSettled } of batch) onSettled(verdicts.get(settlement.id) ?? 'stale');
        return;
      } catch (error) {
        if (!isTransient(error)) {
          observe({ type: 'database.error', during: 'settle', error });
          return unstorable(batch, instead, error);
        }
        const free = sqlState(error) === lockedState ? await unlockedOf(database, batch) : batch;
        if (free.length < batch.length) {
          const unlocked = new Set(free);
          onLocked(batch.filter((ended) => !unlocked.has(ended)));
          if (free.length === 0) return;
          batch = free;
          continue;
        }
        for (const ended of batch) unanswered.add(ended);
        const retryMs = retryPauseMs(failures);
        observe({ type: 'database.error', during: 'settle', error, retryMs });
        onFailed();
        await delay(retryMs, undefined, { signal: abandoned }).catch(() => {});
        if (!abandoned.aborted) continue;
        for (const { onSettled } of batch) onSettled('failed');
        return;
      }
    }
  };

  /**
   * Finds the one settlement that the database cannot store, by halves, so that it does not take the others
   * with it, and tries its fallbacks.
   */
  const unstorable = async (
    batch: readonly Ended[],
    instead: readonly Instead[],
    error: unknown,
  ): Promise<void> => {
    const [only] = batch;
    if (batch.length > 1) {
      const half = Math.ceil(batch.length / 2);
      await send(batch.slice(0, half), instead);
      return send(batch.slice(half), instead);
    }
    const [next, ...rest] = instead;
    if (only === undefined) return;
    if (next === undefined) return only.onSettled('failed');
    const settlement = next(only, { error, codec });
    await (settlement === undefined ? unstorable(batch, rest, error) : send([{ ...only, settlement }], rest));
  };
  return (batch) => send(batch, [withoutData, asFailed, asDead]);
}

/**
 * Returns the attempts whose jobs no other transaction has locked. If that cannot be asked, returns all:
 * their settlement meets the same error, and reports it.
 */
async function unlockedOf(database: Target, batch: readonly Ended[]): Promise<readonly Ended[]> {
  try {
    const leases = batch.map(({ settlement }) => settlement);
    const free = await unlockedJobs(database, leases);
    return batch.filter(({ settlement }) => free.has(settlement.id));
  } catch {
    return batch;
  }
}

/** Fallback for a settlement that cannot be stored. Undefined: it does not apply. */
type Instead = (ended: Ended, refused: Refused) => SettleRequest | undefined;

interface Refused {
  readonly error: unknown;
  readonly codec: Codec | undefined;
}

/** Keeps the outcome, and replaces the result or error that the database did not take. */
const withoutData: Instead = ({ settlement, task }, { error, codec }) => {
  if (settlement.data === null) return undefined;
  const note = `${settlement.outcome === 'done' ? 'the result' : 'the error'} can't be stored: ${errorData(error).message}`;
  const job = { id: settlement.id, task };
  if (settlement.outcome !== 'done')
    return { ...settlement, data: JSON.stringify(keptError(codec, job, { kind: 'error', message: note })) };
  const text = JSON.stringify({ pgqueue_error: note });
  return { ...settlement, data: encodedResult(codec, job, { text, strict: false }).data };
};

/** Fails an attempt whose jobs cannot be added. */
const asFailed: Instead = ({ settlement, onRefused }, { error }) =>
  settlement.jobs === undefined ? undefined : onRefused?.(error);

/** Settles the job as dead, since the job itself cannot be written. */
const asDead: Instead = ({ settlement, task }, { error, codec }) => {
  if (settlement.outcome !== 'done' && !isOfRow(error)) return undefined;
  const job = { id: settlement.id, task };
  const data = JSON.stringify(keptError(codec, job, { ...errorData(error), kind: 'error' }));
  return { ...settlement, outcome: 'dead', data, jobs: undefined };
};
