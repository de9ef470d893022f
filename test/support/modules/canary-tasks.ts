// Tasks for `pgqueue worker --tasks`: whatever they do with a payload that holds a secret, no log may show it.
import { defineTask, giveUp, implement, isolated } from '@pgqueue/core';
import type { JobContext } from '@pgqueue/core';
import * as v from 'valibot';

const payload = v.looseObject({ secret: v.string() });

export const returns = implement(defineTask({ name: 'returns', payload }), ({ secret }) => ({ secret }));

export const fails = implement(defineTask({ name: 'fails', payload }), ({ secret }) => {
  // as a library wraps what PostgreSQL says of a wrong value
  const cause = Object.assign(new Error(`invalid input syntax for type integer: "${secret}"`), {
    code: '22P02',
    detail: secret,
  });
  throw Object.assign(new Error('it failed', { cause }), { detail: secret, payload: secret });
});

export const givesUp = implement(defineTask({ name: 'gives-up', payload }), ({ secret }) =>
  giveUp(Object.assign(new TypeError('no use'), { secret })),
);

/** valibot quotes what it refuses. */
export const strict = implement(
  defineTask({ name: 'strict', payload: v.object({ secret: v.number() }) }),
  () => 'never',
);

/** PostgreSQL quotes it in the message, and the whole row in the detail. */
const statements = [
  'select $1::text::integer',
  `with row (a, b) as (values (1, $1::text)) insert into pgqueue.queue (task, payload, max_tries)
   select 'x', jsonb_build_object('secret', b), 0 from row`,
];
export const asks = statements.map((text, index) =>
  implement(defineTask({ name: `asks-${index}`, payload }), async ({ secret }, { transaction }) =>
    transaction(async (client) => client.query(text, [secret])),
  ),
);

export const logs = implement(
  defineTask({ name: 'logs', payload }),
  async ({ secret }, { log, transaction }) => {
    for (const text of statements) {
      await transaction(async (client) => client.query(text, [secret])).catch((err: unknown) =>
        log.warn({ err }, 'a statement failed'),
      );
    }
  },
);

async function refused(secret: string, { transaction }: Pick<JobContext, 'transaction'>): Promise<Error> {
  const text = statements[1] ?? '';
  try {
    await transaction(async (client) => client.query(text, [secret]));
  } catch (error) {
    if (error instanceof Error) return error;
  }
  throw new Error('PostgreSQL has not refused it');
}

/** Nobody awaits the promise that it makes. */
export const floats = implement(defineTask({ name: 'floats', payload }), async ({ secret }, context) => {
  void Promise.reject(await refused(secret, context));
});

/** Its error ends the process. */
export const bursts = implement(defineTask({ name: 'bursts', payload }), async ({ secret }, context) => {
  const error = await refused(secret, context);
  setImmediate(() => {
    throw error;
  });
  await new Promise(() => {});
});

const module = new URL('isolated/canary.ts', import.meta.url);
export const apart = implement(defineTask({ name: 'bursts-apart', payload }), isolated(module));
