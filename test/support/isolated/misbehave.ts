import type { HandlerOf } from '@pgqueue/core';
import { giveUp, snooze } from '@pgqueue/core';
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';
import pg from 'pg';
import type { misbehave } from './tasks.ts';

/** Does what it is told to, in a process of its own. */
export const handler: HandlerOf<typeof misbehave> = async ({ how, url }, ctx) => {
  switch (how) {
    case 'return':
      return { pid: process.pid, job: ctx.job.id, created: ctx.job.created instanceof Date };
    case 'throw':
      throw Object.assign(new TypeError('a throw from inside', { cause: new Error('the cause of it') }), {
        code: 'E_INSIDE',
      });
    case 'return an error':
      return new RangeError('returned from inside');
    case 'throw later':
      setImmediate(() => {
        throw new Error('nobody catches this');
      });
      await delay(60_000);
      return null;
    case 'exit':
      return process.exit(7);
    case 'abort':
      return process.abort();
    case 'segfault':
      process.kill(process.pid, 'SIGSEGV');
      await delay(60_000);
      return null;
    case 'signals':
      for (const signal of ['SIGINT', 'SIGTERM'] as const) process.kill(process.pid, signal);
      await delay(100);
      return { pid: process.pid };
    case 'memory': {
      const kept: unknown[] = [];
      for (;;) kept.push(Array.from({ length: 10_000 }, (_none, n) => ({ n })));
    }
    case 'loop':
      await ctx.progress({ pid: process.pid });
      for (;;) Math.random();
    case 'wait':
      await ctx.progress({ pid: process.pid });
      await delay(60_000, undefined, { signal: ctx.signal }).catch(() => {});
      ctx.log.info({ reason: (ctx.signal.reason as { readonly code?: unknown }).code }, 'stopped');
      throw ctx.signal.reason as Error;
    case 'stubborn':
      await ctx.progress('waiting');
      await delay(60_000);
      return null;
    case 'context': {
      ctx.log.warn({ said: 'from inside', err: new TypeError('whole'), rows: 3n }, 'hello');
      const extended = await ctx.extend('2h');
      const shown = await ctx.progress({ half: true });
      const kept = await ctx.checkpoint({ at: ctx.job.tries });
      if (ctx.job.tries === 0) throw new Error('once');
      return { extended, shown, kept, found: ctx.job.checkpoint };
    }
    case 'forget to await':
      void ctx.progress({ half: true });
      void ctx.checkpoint({ at: 1 });
      void ctx.extend('2h');
      return null;
    case 'unfit checkpoint':
      await ctx.checkpoint({ at: 'text' } as never);
      return null;
    case 'too much progress':
      await ctx.progress('x'.repeat(8_191));
      return null;
    case 'give up':
      return giveUp(new RangeError('no use'));
    case 'snooze':
      return snooze('1h');
    case 'uncopied':
      return { text: 'kept', bad: 1n as unknown };
    default:
      return (await letGo(how)) ?? transact(how, { ctx, url: String(url) });
  }
};

const gate = Promise.withResolvers<void>();
const outside = Promise.withResolvers<void>();
void outside.promise.then(() => Promise.reject(new Error("the module's own")));

/** Lets promises go; Node tells of their rejections at the end of a turn. */
async function letGo(how: string): Promise<unknown> {
  switch (how) {
    case 'reject':
      void Promise.reject(new Error('nobody hears this'));
      await turn();
      return 'a result that is not true';
    case 'handle late': {
      const early = Promise.reject(new Error('handled late'));
      await turn();
      return early.catch((error: unknown) => `caught: ${String(error)}`);
    }
    case 'leave behind':
      void gate.promise.then(() => Promise.reject(new Error('left behind')));
      return { pid: process.pid };
    case 'open the gate':
      gate.resolve();
      await turn();
      return { pid: process.pid };
    case 'reject outside':
      outside.resolve();
      await delay(60_000);
      return null;
    default:
      return undefined;
  }
}

type Context = Parameters<typeof handler>[1];

async function transact(
  how: string,
  { ctx, url }: { readonly ctx: Context; readonly url: string },
): Promise<unknown> {
  switch (how) {
    case 'transaction':
      await ctx.transaction(async (client) => {
        const { rows, rowCount } = await client.query('insert into effect values ($1, $2) returning note', [
          ctx.job.id,
          'written',
        ]);
        if (rowCount !== 1 || (rows[0] as { note: string }).note !== 'written')
          throw new Error('wrong answer');
      });
      return null;
    case 'reject in transaction':
      await ctx.transaction(async () => {
        void Promise.reject(new Error('nobody hears this'));
        await turn();
      });
      return null;
    case 'left transaction': {
      const written = Promise.withResolvers<void>();
      const left = ctx.transaction(async (client) => {
        await client.query('insert into effect values ($1, $2)', [ctx.job.id, 'left']);
        written.resolve();
        await new Promise(() => {});
      });
      left.catch(() => {});
      await written.promise;
      return null;
    }
    case 'broken transaction': {
      const failure = new RangeError('mine');
      const told = await ctx
        .transaction(async (client) => {
          await client.query('insert into effect values ($1, $2)', [ctx.job.id, 'undone']);
          throw failure;
        })
        .catch((error: unknown) => error === failure);
      return { told };
    }
    case 'die in transaction':
      return ctx.transaction(async (client) => {
        await client.query('insert into effect values ($1, $2)', [ctx.job.id, 'undone']);
        process.exit(3);
      });
    case 'settle in': {
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      try {
        await ctx.settleIn(async (settle) => {
          await client.query('begin');
          await client.query('insert into effect values ($1, $2)', [ctx.job.id, 'by my own']);
          await settle(client);
          await client.query('commit');
        });
      } finally {
        await client.end();
      }
      return null;
    }
    default:
      throw new Error(`there is no way to ${how}`);
  }
}
