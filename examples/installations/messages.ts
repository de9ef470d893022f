/** Message from a process of the demo to its parent. */
export type Message =
  | { readonly kind: 'ready' }
  /** A call to the vendor that was made. Times in Unix milliseconds. */
  | { readonly kind: 'called'; readonly tenant: string; readonly beganAt: number; readonly endedAt: number };

/** Returns Unix milliseconds with fractions, comparable between processes of one machine. */
export const now = (): number => performance.timeOrigin + performance.now();

export function tell(message: Message): void {
  process.send?.(message);
}
