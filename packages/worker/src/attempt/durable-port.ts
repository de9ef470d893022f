import { encodedRows, unreachable } from '@pgqueue/core/internal';
import type { Suspension } from '@pgqueue/postgres/internal';
import { readClock, readWaitedPage, settle, suspendJob } from '@pgqueue/postgres/internal';
import { Suspended } from '../durable/suspended.ts';
import type { MemoEntry, NodePort } from '../flow/node-port.ts';
import { lose } from '../lease/held-leases.ts';
import { AbortedError } from '../lease/timing.ts';
import type { Attempt, OpenTransaction } from './attempt.ts';
import { saveText } from './checkpoint.ts';
import { decodedPage, encodedCheckpoint } from '../codec/encoding.ts';
import type { LeaseParts } from './lease-calls.ts';
import { overError, ownRows, throwOver, whileHeld } from './lease-calls.ts';
import { pageOfLease, tracedRows } from './job-port.ts';

/** Returns the part of an attempt's port that steps and waits use. */
export function durablePort(
  parts: LeaseParts,
  attempt: Attempt,
): Pick<NodePort, 'begin' | 'keep' | 'sleep' | 'wait' | 'waitedPage'> {
  const { memo } = attempt;
  const { database, codec } = parts;

  const store = async (name: string, entry: MemoEntry): Promise<void> => {
    const text = memo.textWith({ entry: [name, entry] });
    if (!(await saveText(parts, attempt, text))) throw overError([attempt]);
    memo.set(name, entry);
  };

  return {
    begin: (name, kind) => {
      throwOver([attempt]);
      return Promise.resolve(memo.begin(name, kind));
    },
    keep: (name, text) =>
      memo.inTurn(() =>
        store(
          name,
          text === undefined ? { kind: 'step' } : { kind: 'step', value: JSON.parse(text) as unknown },
        ),
      ),
    sleep: (name, ms) =>
      memo.inTurn(async () => {
        const kept = memo.entry(name);
        if (kept?.kind === 'sleep' && kept.untilMs <= memo.seenMs) return;
        memo.seenMs = (await whileHeld([attempt], () => readClock(database)))?.given ?? memo.seenMs;
        const untilMs = kept?.kind === 'sleep' ? kept.untilMs : memo.seenMs + ms;
        if (kept === undefined) await store(name, { kind: 'sleep', untilMs });
        const delayMs = untilMs - memo.seenMs;
        if (delayMs <= 0) return;
        await suspend(parts, attempt, {
          by: 'ctx.sleep',
          wait: name,
          ask: async (repeat) => {
            const snooze = { ...idOf(attempt), outcome: 'snooze', delayMs, data: null } as const;
            const verdict = (await settle(database, [snooze], { repeat })).get(attempt.job.id);
            return verdict === undefined || verdict === 'cancelled' ? verdict : 'suspended';
          },
        });
      }),
    wait: (name, entry, flow) =>
      memo.inTurn(async () => {
        if (entry.over === true) return;
        const checkpoint = encodedCheckpoint(codec, attempt.job, memo.textWith({ entry: [name, entry] }));
        const [first] = flow.steps;
        const rows = encodedRows(codec, first?.jobs ?? []);
        const ask = (repeat: boolean): Promise<Suspension> =>
          tracedRows(attempt, rows, (jobs) => {
            const steps = flow.steps.map((step) => (step === first ? { ...step, jobs } : step));
            return suspendJob(database, attempt.lease, { checkpoint, flow: { ...flow, steps }, repeat });
          });
        const by = entry.kind === 'all' ? 'ctx.all' : 'ctx.waitForSignal';
        await suspend(parts, attempt, { by, wait: name, ask, onSuspended: () => parts.onAdded(rows) });
        memo.set(name, { ...entry, over: true });
      }),
    waitedPage: async (flow, place, signal) => {
      const read = (): ReturnType<typeof readWaitedPage> =>
        readWaitedPage(database, attempt.lease, { ...place, flow });
      return decodedPage(codec, await pageOfLease(parts, attempt, read), signal);
    },
  };
}

function idOf({ job: { id, token }, waitedMs }: Attempt): {
  readonly id: string;
  readonly token: string;
  readonly waitedMs: number;
} {
  return { id, token, waitedMs };
}

interface Suspending {
  readonly by: OpenTransaction['by'];
  readonly wait: string;
  /** Suspends the job. `repeat`: the reply of an earlier try may have been lost. */
  readonly ask: (repeat: boolean) => Promise<Suspension>;
  readonly onSuspended?: () => void;
}

/**
 * Suspends a job, which ends its attempt as a transaction of the handler does that settles it. Resolves if there is
 * nothing to wait for.
 * @throws {Suspended}
 * @throws {AbortedError} the lease was lost, or the job was cancelled
 */
async function suspend(parts: LeaseParts, attempt: Attempt, suspending: Suspending): Promise<void> {
  throwOver([attempt]);
  const { promise, resolve } = Promise.withResolvers<void>();
  const open: OpenTransaction = { by: suspending.by, ended: promise };
  attempt.opened(open);
  try {
    await ownRows([attempt]);
    if (!attempt.beginCommit()) throw overError([attempt]);
    const held = await whileHeld(
      [attempt],
      (_, again) => suspending.ask(again),
      (error, retryMs) => parts.observe({ type: 'database.error', during: 'commit', error, retryMs }),
    );
    const answer = held?.given;
    switch (answer) {
      case 'ended':
        attempt.abandonCommit();
        return;
      case 'suspended':
        attempt.suspended = new Suspended(suspending.wait);
        attempt.finish();
        parts.onSuspended(attempt, 'snooze');
        suspending.onSuspended?.();
        throw attempt.suspended;
      case 'cancelled':
        attempt.abort('cancelled');
        attempt.finish();
        parts.onSuspended(attempt, 'cancelled');
        throw new AbortedError('cancelled');
      case undefined:
        lose(attempt, { ...parts, during: 'settle' });
        throw overError([attempt]);
      default:
        unreachable(answer);
    }
  } catch (error) {
    attempt.abandonCommit();
    throw error;
  } finally {
    attempt.closed(open);
    resolve();
  }
}
