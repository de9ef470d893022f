/** Limits over all installations, by the queue that each is for. */
export const limits = { calls: 4, mails: { perSecond: 12, burst: 12 } } as const;

export const queues = ['calls', 'mails', 'default'] as const;

/** Returns the queue of a key's jobs. */
export function queueOf(key: string): string {
  return queues[Number(key.slice(key.indexOf('-') + 1)) % 4] ?? 'default';
}
