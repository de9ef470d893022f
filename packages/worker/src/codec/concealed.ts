import type { Codec, Observer, PgQueueEvent } from '@pgqueue/core';

/** Events with errors of handlers. */
const ofHandlers: ReadonlySet<PgQueueEvent['type']> = new Set([
  'job.settled',
  'job.floating',
  'job.late_error',
  'job.crashed',
]);

/** Returns an observer that hears no texts of handlers' errors, if the codec encodes them. */
export function concealing(codec: Codec | undefined, observe: Observer): Observer {
  if (codec?.errors !== true) return observe;
  return (event) => {
    if (!ofHandlers.has(event.type) || !('error' in event)) return observe(event);
    observe({ ...event, error: concealed(event.error) });
  };
}

/** Returns an error with the name, code and stack frames of another one, and without its text and causes. */
export function concealed(error: unknown): Error {
  const shown = new Error('the text of this error is stored with its job, encrypted');
  shown.stack = '';
  try {
    if (!(error instanceof Error)) return shown;
    const { name, code } = error as { readonly name: unknown; readonly code?: unknown };
    if (typeof name === 'string') shown.name = name;
    if (typeof code === 'string') Object.assign(shown, { code });
    shown.stack = framesOf(error);
  } catch {
    // a value whose reading throws, such as a revoked proxy, shows nothing
  }
  return shown;
}

/** The message stands at the head of the stack, and its lines may look like frames. */
function framesOf({ message, stack = '' }: Error): string {
  const head = stack.indexOf(message);
  const rest = head === -1 ? '' : stack.slice(head + message.length);
  return rest
    .split('\n')
    .filter((line) => /^\s+at /.test(line))
    .join('\n');
}
