/**
 * Waits until the promise has settled, for `ms` at most. Resolves to true when it settled in time. Never
 * rejects.
 */
export async function within(ms: number, promise: Promise<unknown>): Promise<boolean> {
  const late = Promise.withResolvers<false>();
  const timer = setTimeout(() => late.resolve(false), ms);
  const settled = promise.then(
    () => true as const,
    () => true as const,
  );
  try {
    return await Promise.race([settled, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
