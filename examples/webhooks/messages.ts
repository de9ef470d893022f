import type { PgQueueEvent } from '@pgqueue/core';

/** Message from a process of the demo to its parent. */
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
  /** Numbers of accepted events, and of those accepted more than once. */
  readonly accepted: number;
  readonly duplicates: number;
  readonly failures: number;
  readonly forged: number;
}

/** Sends a message to the parent process, if there is one: the same files also run on their own. */
export function tell(message: Message): void {
  process.send?.(message);
}

/** Sends the events that the report counts; sending the others would only take time. */
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
