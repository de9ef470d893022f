import type { PgQueueEvent } from '@pgqueue/core';

/** What the processes of the demo tell the one that started them. */
export type Message =
  | { readonly kind: 'ready'; readonly detail: string }
  | { readonly kind: 'event'; readonly at: number; readonly event: PgQueueEvent }
  | {
      readonly kind: 'enqueued';
      readonly committed: Readonly<Record<string, number>>;
      readonly rolledBack: number;
    }
  | { readonly kind: 'receiver'; readonly report: ReceiverReport };

export interface ReceiverReport {
  readonly requests: number;
  /** Events accepted, and how many of them more than once. */
  readonly accepted: number;
  readonly duplicates: number;
  readonly failures: number;
  readonly forged: number;
}

/** Sends to the parent, if there is one: the same files run on their own too. */
export function tell(message: Message): void {
  process.send?.(message);
}

/** Events that the report counts; the others would only cost time. */
export function tellEvent(event: PgQueueEvent): void {
  const counted = ['leader.elected', 'job.stale', 'node.ended', 'tick'].includes(event.type);
  const idle = event.type === 'tick' && event.dispatched === 0;
  if (counted && !idle) tell({ kind: 'event', at: Date.now(), event });
}

export function requiredEnv(name: string): string {
  const value = process.env[name];
  if (value === undefined || value === '') throw new Error(`set ${name}`);
  return value;
}

/** Runs `stop` once, at the first SIGTERM or SIGINT; the process then ends by itself. */
export function onStop(stop: () => Promise<void>): void {
  let stopping = false;
  const once = (): void => {
    if (stopping) return;
    stopping = true;
    void stop().finally(() => process.disconnect?.());
  };
  process.on('SIGTERM', once);
  process.on('SIGINT', once);
}
