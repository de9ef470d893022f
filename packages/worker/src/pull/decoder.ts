import type { Codec, Observer } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import type { ClaimedJob } from '@pgqueue/core/internal';
import type { SettleRequest, Target } from '@pgqueue/postgres/internal';
import { persistently, settle } from '@pgqueue/postgres/internal';
import { conclude } from '../attempt/to-settlement.ts';
import { decodeJob } from '../codec/encoding.ts';
import { tellUnread } from '../run/unread.ts';

/** Parts of {@link createDecoder}. */
export interface DecoderParts {
  readonly codec: Codec | undefined;
  readonly observe: Observer;
  readonly database: Target;
}

/** Claimed jobs that could be decoded. `end`: ends the leases of the others; the heartbeat gives back what it can't end. */
interface Decoded {
  readonly readable: readonly ClaimedJob[];
  readonly end: () => Promise<void>;
}

/**
 * Returns what decodes claimed jobs, and keeps those that can't be decoded from the caller: a job whose key is missing waits,
 * uncounted, and one that was changed is dead.
 */
export function createDecoder({
  codec,
  observe,
  database,
}: DecoderParts): (jobs: readonly ClaimedJob[]) => Decoded {
  const nothing = (): Promise<void> => Promise.resolve();
  return (jobs) => {
    const ends: SettleRequest[] = [];
    const readable = jobs.filter((job) => {
      const end = endOf(codec, job, observe);
      if (end !== undefined) ends.push(end);
      return end === undefined;
    });
    const end = async (): Promise<void> => {
      try {
        await persistently((repeat) => settle(database, ends, { repeat }));
      } catch (error) {
        observe({ type: 'database.error', during: 'settle', error });
      }
    };
    return { readable, end: ends.length === 0 ? nothing : end };
  };
}

/** Returns how a job ends that can't be decoded; undefined: it is decoded. */
function endOf(codec: Codec | undefined, job: ClaimedJob, observe: Observer): SettleRequest | undefined {
  const ending = decodeJob(codec, job);
  if (ending === undefined) return undefined;
  tellUnread(observe, job, ending);
  const made = conclude({ job, codec, ending, retry: {}, aborted: undefined, random: Math.random() });
  if (made.kind !== 'settle')
    throw new PgQueueError('invariant', 'a job that was not run has ended otherwise');
  const { settlement, error } = made;
  if (settlement.outcome === 'dead') {
    const { id, queue, task } = job;
    observe({ type: 'job.settled', job: id, queue, task, verdict: 'dead', durationMs: 0, error });
  }
  return settlement;
}
