// Its error ends the process or thread that it runs in: what is said of that holds nothing that the error carries.
import type { Handler } from '@pgqueue/core';

export const handler: Handler<{ readonly secret: string }, unknown> = async ({ secret }) => {
  setImmediate(() => {
    throw Object.assign(new Error('burst'), { detail: `Failing row contains (${secret}).` });
  });
  await new Promise(() => {});
};
