/**
 * Returns what a user's function gave.
 * @throws {Error} if that is a promise: a plan can't wait for it, and it would count as any other object
 */
export function answerOf<Value>(what: string, value: Value): Value {
  if (!(value instanceof Promise)) return value;
  // an unhandled rejection of this promise would end the process
  value.catch(() => {});
  throw new Error(`${what} gave a promise, and must answer at once`);
}
