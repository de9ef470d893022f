/** A value, or a promise of it when it is not available at once. */
export type MaybePromise<Value> = Value | Promise<Value>;

/**
 * Applies `next` to the value, synchronously unless it is a promise: for thousands of jobs, a promise each
 * costs more than most of the work itself.
 */
export function whenDone<Value, Result>(
  value: MaybePromise<Value>,
  next: (value: Value) => MaybePromise<Result>,
): MaybePromise<Result> {
  if (!isPromise(value)) return next(value);
  return (async () => next(await value))();
}

/** Replaces a rejection by the value that `instead` returns. */
export function caught<Value>(
  value: MaybePromise<Value>,
  instead: (error: unknown) => Value,
): MaybePromise<Value> {
  return isPromise(value) ? Promise.resolve(value).catch((error: unknown) => instead(error)) : value;
}

/**
 * Calls the user's code from a listener. Its error, thrown or by its promise, is dropped: it would end the process,
 * and every job of it.
 */
export function quietly(call: () => unknown): void {
  try {
    void caught(call(), () => undefined);
  } catch {
    // what it was told of goes on
  }
}

/** Recognizes promises of other realms too, for which `instanceof` fails. */
function isPromise<Value>(value: MaybePromise<Value>): value is Promise<Value> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}
