// Ends its process by an error: what the worker says of that end holds nothing that the error carries.
import type { Handler } from '@pgqueue/core';

export const handler: Handler<{ readonly secret: string }, unknown> = async ({ secret }) => {
  setImmediate(() => {
    throw Object.assign(new Error('burst'), { detail: `Failing row contains (${secret}).` });
  });
  await new Promise(() => {});
};
