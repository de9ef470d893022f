/** What may be there at once. */
export type MaybePromise<Value> = Value | Promise<Value>;

/** Goes on at once where it can: a promise for each of thousands costs more than most of what is done then. */
export function whenDone<Value, Result>(
  value: MaybePromise<Value>,
  next: (value: Value) => Result,
): MaybePromise<Result> {
  if (!isPromise(value)) return next(value);
  return (async () => next(await value))();
}

/** What comes instead of a rejection. */
export function caught<Value>(
  value: MaybePromise<Value>,
  instead: (error: unknown) => Value,
): MaybePromise<Value> {
  return isPromise(value) ? Promise.resolve(value).catch((error: unknown) => instead(error)) : value;
}

/** Of another realm too, which `instanceof` does not see. */
function isPromise<Value>(value: MaybePromise<Value>): value is Promise<Value> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}
