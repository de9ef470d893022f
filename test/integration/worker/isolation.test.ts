import { defineTask, implement, isolated } from '@pgqueue/core';
import type { IsolatedOptions } from '@pgqueue/core';
import { createOperator } from '@pgqueue/postgres';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { startActor } from '../../support/actors.ts';
import { opened } from '../../support/database.ts';
import { misbehave } from '../../support/isolated/tasks.ts';
import { isAlive } from '../../support/servers/machine.ts';
import type { TestWorker } from '../../support/worker-bench.ts';
import { openWorkerBench, until } from '../../support/worker-bench.ts';

const bench = opened(openWorkerBench);
beforeAll(() => bench.sql('create table effect (job uuid, note text)'));
beforeEach(() => bench.sql('truncate effect'));
afterEach(() => bench.clear());

const module = new URL('../../support/isolated/misbehave.ts', import.meta.url);
const plain = defineTask({ name: 'plain', payload: z.object({}), timeout: '1h' });

interface Setting extends Partial<IsolatedOptions> {
  readonly floatingRejections?: 'fail' | 'crash';
}

/** A worker with an isolated handler, and a neighbour in the node itself that runs throughout. */
async function started({ floatingRejections = 'fail', ...options }: Setting = {}) {
  const lines: unknown[][] = [];
  const note = (...line: unknown[]): void => void lines.push(line);
  const neighbour = Promise.withResolvers<void>();
  const worker = await bench.worker(
    [implement(misbehave, isolated(module, options)), implement(plain, () => neighbour.promise)],
    { floatingRejections, logger: { debug: note, info: note, warn: note, error: note } },
  );
  const { id: besideId } = await bench.producer.enqueue(plain, {});
  await bench.dispatch();
  await until('the neighbour to run', () => worker.of('job.started').some(({ job }) => job === besideId));
  const finish = async (): Promise<void> => {
    neighbour.resolve();
    await ended(besideId, 'done');
    expect(await bench.job(besideId)).toMatchObject({ crashes: 0, tries: 0, node: worker.node });
    await until('no slot to be used', () => worker.running === 0);
  };
  return { worker, lines, finish };
}

async function enqueue(how: string, options: object = {}): Promise<string> {
  const { id } = await bench.producer.enqueue(misbehave, { how, url: bench.test.url }, options);
  await bench.dispatch();
  return id;
}

const ended = (id: string, status: string): Promise<unknown> =>
  until(`job to be ${status}`, async () => {
    await bench.sql(
      `update pgqueue.queue set run_after = null where run_after < clock_timestamp() + interval '1 minute'`,
    );
    await bench.dispatch();
    return (await bench.job(id)).status === status;
  });
const shows = (id: string): Promise<unknown> =>
  until('progress', async () => (await bench.job(id)).progress ?? undefined);

describe('in a process', () => {
  test('a handler returns, throws, and ends as it says; what it runs in is kept for the next', async () => {
    const { worker, finish } = await started();
    const first = await enqueue('return');
    await ended(first, 'done');
    const second = await enqueue('return');
    await ended(second, 'done');
    const [one, two] = [await bench.job(first), await bench.job(second)];
    expect(one.result).toEqual({ pid: expect.any(Number), job: first, created: true });
    expect((one.result as { pid: number }).pid).not.toBe(process.pid);
    expect((two.result as { pid: number }).pid).toBe((one.result as { pid: number }).pid);
    const thrown = await enqueue('throw');
    await ended(thrown, 'dead');
    expect(await bench.job(thrown)).toMatchObject({
      reason: 'max_tries',
      tries: 3,
      crashes: 0,
      lastError: {
        kind: 'error',
        name: 'TypeError',
        message: 'a throw from inside',
        code: 'E_INSIDE',
        cause: { message: 'the cause of it', stack: expect.stringContaining('misbehave') },
      },
    });
    const returned = await enqueue('return an error', { retry: { maxTries: 1 } });
    await ended(returned, 'dead');
    expect((await bench.job(returned)).lastError).toMatchObject({
      name: 'RangeError',
      message: 'returned from inside',
    });
    const given = await enqueue('give up');
    await ended(given, 'dead');
    expect(await bench.job(given)).toMatchObject({
      reason: 'gave_up',
      lastError: { name: 'RangeError', message: 'no use' },
    });
    const snoozed = await enqueue('snooze');
    await until('it to snooze', async () => (await bench.job(snoozed)).status === 'delayed');
    const uncopied = await enqueue('uncopied');
    await ended(uncopied, 'done');
    expect(await bench.job(uncopied)).toMatchObject({
      result: { pgqueue_error: expect.stringContaining('BigInt') },
    });
    await until('its event', () => worker.of('job.settled').some(({ job }) => job === uncopied));
    expect(worker.of('job.settled').find(({ job }) => job === uncopied)).toMatchObject({
      verdict: 'done',
      error: { message: expect.stringMatching(/can't be stored as JSON: .*BigInt/) },
    });
    await finish();
  });

  test('the context crosses the border: log, extend, progress, checkpoint', async () => {
    const { lines, worker, finish } = await started();
    const id = await enqueue('context');
    await ended(id, 'done');
    expect(await bench.job(id)).toMatchObject({
      tries: 1,
      result: { extended: true, shown: true, kept: true, found: { at: 0 } },
    });
    expect(lines).toContainEqual([
      expect.objectContaining({
        job: id,
        task: 'misbehave',
        said: 'from inside',
        err: expect.objectContaining({ name: 'TypeError', message: 'whole' }),
        rows: 3,
      }),
      'hello',
    ]);
    const unfit = await enqueue('unfit checkpoint');
    await ended(unfit, 'dead');
    expect((await bench.job(unfit)).lastError?.message).toMatch(/can't keep this checkpoint: at: /);
    const much = await enqueue('too much progress');
    await ended(much, 'dead');
    expect((await bench.job(much)).lastError).toMatchObject({
      code: 'invalid_job',
      message: expect.stringContaining("can't show this progress: it has 8193 bytes"),
    });
    const forgot = await enqueue('forget to await');
    await ended(forgot, 'done');
    const next = await enqueue('return');
    await ended(next, 'done');
    expect([worker.of('job.crashed'), worker.of('job.floating')]).toEqual([[], []]);
    await finish();
  });

  test.each([
    ['exit', 'fail'],
    ['memory', 'fail'],
    ['throw later', 'fail'],
    ['reject outside', 'fail'],
    ['reject', 'crash'],
  ] as const)('%s (%s) ends one attempt as a crash, and nothing else', async (how, floatingRejections) => {
    const { finish, worker } = await started({ memoryMb: 48, floatingRejections });
    const id = await enqueue(how, { retry: { maxCrashes: 1 } });
    await ended(id, 'dead');
    expect(await bench.job(id)).toMatchObject({
      reason: 'crash_limit',
      crashes: 1,
      tries: 0,
      lastError: { kind: 'crash' },
    });
    const words: Readonly<Record<string, RegExp>> = {
      exit: /exit code 7/,
      memory: /SIGABRT|exit code/,
    };
    expect((await bench.job(id)).lastError?.message).toMatch(words[how] ?? /exit code 1/);
    expect(worker.of('job.floating')).toEqual([]);
    await finish();
  });

  test('a rejection that a handler lets go fails its attempt, as in the node', async () => {
    const { worker, finish } = await started();
    const id = await enqueue('reject', { retry: { base: '1h' } });
    await until('it to wait', async () => (await bench.job(id)).status === 'delayed');
    expect(await bench.job(id)).toMatchObject({
      tries: 1,
      crashes: 0,
      lastError: { kind: 'error', message: 'nobody hears this', stack: expect.stringContaining('misbehave') },
    });
    expect(worker.of('job.floating')).toMatchObject([
      { job: id, task: 'misbehave', counted: true, error: { message: 'nobody hears this' } },
    ]);
    const handled = await enqueue('handle late');
    await ended(handled, 'done');
    expect(await bench.job(handled)).toMatchObject({ result: 'caught: Error: handled late', tries: 0 });
    const committed = await enqueue('reject in transaction');
    await ended(committed, 'done');
    await until('its error', () => worker.of('job.late_error').length === 1);
    expect(worker.of('job.late_error')).toMatchObject([
      { job: committed, error: { message: 'nobody hears this' } },
    ]);
    expect(await bench.job(committed)).toMatchObject({ tries: 0, crashes: 0 });
    await finish();
  });

  test('a rejection that comes when its job is over is told, and the next job in its process goes on', async () => {
    const { worker, finish } = await started();
    const left = await enqueue('leave behind', { retry: { maxCrashes: 1 } });
    await ended(left, 'done');
    const next = await enqueue('open the gate', { retry: { maxCrashes: 1 } });
    await ended(next, 'done');
    const [before, after] = [await bench.job(left), await bench.job(next)];
    expect(after).toMatchObject({ result: before.result, tries: 0, crashes: 0 });
    expect(worker.of('job.floating')).toMatchObject([
      { job: left, task: 'misbehave', counted: false, error: { message: 'left behind' } },
    ]);
    await finish();
  });

  test('what crashed is tried again at once, beside others, and is dead after three', async () => {
    const { worker, finish } = await started();
    const id = await enqueue('exit');
    await ended(id, 'dead');
    expect(await bench.job(id)).toMatchObject({ reason: 'crash_limit', crashes: 3, tries: 0 });
    await expect.poll(() => worker.of('job.crashed')).toMatchObject([{ job: id }, { job: id }]);
    await expect.poll(() => worker.of('job.settled')).toMatchObject([{ job: id, verdict: 'dead' }]);
    await finish();
  });

  test('an endless loop is killed after its timeout; the attempt ends as timed out, and the slot is free', async () => {
    const { worker, finish } = await started();
    const id = await enqueue('loop', { timeout: 5_000, retry: { maxTries: 1 } });
    await ended(id, 'dead');
    expect(await bench.job(id)).toMatchObject({
      reason: 'max_tries',
      crashes: 0,
      lastError: { kind: 'timeout' },
    });
    await until('the slot to be free', () => worker.running === 1);
    await finish();
  });

  test('an idle process that is killed takes no attempt of another process with it', async () => {
    const { finish } = await started();
    const running = await enqueue('wait');
    await shows(running);
    const first = await enqueue('return');
    await ended(first, 'done');
    const { pid } = (await bench.job(first)).result as { readonly pid: number };
    process.kill(pid, 'SIGKILL');
    await until('it to be dead', () => !isAlive(pid));
    const next = await enqueue('return');
    await ended(next, 'done');
    expect((await bench.job(next)).result).not.toMatchObject({ pid });
    expect(await bench.job(running)).toMatchObject({ status: 'running', crashes: 0 });
    const { jobs, close } = createOperator({ connectionString: bench.test.url });
    await jobs.cancel([running]);
    await close();
    await ended(running, 'cancelled');
    await finish();
  });

  test('a cancelled one hears of it by its signal, or is killed', async () => {
    const { worker, lines, finish } = await started();
    const { jobs, close } = createOperator({ connectionString: bench.test.url });
    const [heeds, loops] = [await enqueue('wait'), await enqueue('loop')];
    await Promise.all([shows(heeds), shows(loops)]);
    await jobs.cancel([heeds, loops]);
    await ended(heeds, 'cancelled');
    await ended(loops, 'cancelled');
    expect(lines).toContainEqual([expect.objectContaining({ reason: 'cancelled' }), 'stopped']);
    await until('the slots to be free', () => worker.running === 1);
    await close();
    await finish();
  });

  test('signals to all processes, such as Ctrl-C, end none; a stop ends what is idle', async () => {
    const { worker, finish } = await started();
    const id = await enqueue('signals', { retry: { maxCrashes: 1 } });
    await ended(id, 'done');
    const { pid } = (await bench.job(id)).result as { readonly pid: number };
    expect(isAlive(pid)).toBe(true);
    await finish();
    await worker.stop();
    expect(isAlive(pid)).toBe(false);
  });

  test('a stop gives back what does not end by its signal, uncounted, and leaves nothing behind', async () => {
    const { worker } = await started();
    const [heeds, stubborn] = [await enqueue('wait'), await enqueue('stubborn')];
    await Promise.all([shows(heeds), shows(stubborn)]);
    const { pid } = (await bench.job(heeds)).progress as { readonly pid: number };
    await worker.stop({ drainMs: 0 });
    for (const id of [heeds, stubborn]) {
      expect(await bench.job(id)).toMatchObject({ status: 'ready', tries: 0, crashes: 0 });
    }
    expect(isAlive(pid)).toBe(false);
  });

  test('transactions: by the node, or on a connection of its own; one that dies in it undoes nothing but its own', async () => {
    const { worker, finish } = await started();
    const written = await enqueue('transaction');
    await ended(written, 'done');
    const own = await enqueue('settle in');
    await ended(own, 'done');
    const told = await enqueue('broken transaction');
    await ended(told, 'done');
    expect((await bench.job(told)).result).toEqual({ told: true });
    const left = await enqueue('left transaction', { retry: { maxTries: 1 } });
    await ended(left, 'dead');
    expect((await bench.job(left)).lastError?.message).toMatch('ctx.transaction was not awaited');
    const died = await enqueue('die in transaction', { retry: { maxCrashes: 1 } });
    await ended(died, 'dead');
    expect(await bench.sql('select job, note from effect order by note')).toEqual([
      { job: own, note: 'by my own' },
      { job: written, note: 'written' },
    ]);
    expect(worker.of('job.stale')).toEqual([]);
    await finish();
  });

  test.each(['abort', 'segfault'])('%s ends one attempt, and neither the node nor its jobs', async (how) => {
    const { finish } = await started();
    const id = await enqueue(how, { retry: { maxCrashes: 1 } });
    await ended(id, 'dead');
    expect(await bench.job(id)).toMatchObject({ reason: 'crash_limit', crashes: 1 });
    expect((await bench.job(id)).lastError?.message).toMatch(how === 'abort' ? /SIGABRT/ : /SIGSEGV/);
    await finish();
  });
});

test('a process whose handler keeps its event loop ends with the node that was killed', async () => {
  const actor = await startActor('worker', {
    url: bench.test.url,
    name: 'killed',
    file: new URL('../../support/actors/isolating.ts', import.meta.url),
  });
  const id = await enqueue('loop');
  const { pid } = (await shows(id)) as { readonly pid: number };
  expect([pid === actor.process.pid, isAlive(pid)]).toEqual([false, true]);
  actor.signal('SIGKILL');
  await until('its process to end', () => !isAlive(pid));
  await actor.stop();
});

test('what cannot be run is an error of the attempt', async () => {
  const missing = defineTask({ name: 'missing', payload: z.object({}), retry: { maxTries: 1 } });
  const empty = defineTask({ name: 'empty', payload: z.object({}), retry: { maxTries: 1 } });
  const odd = defineTask({
    name: 'odd',
    payload: z.object({}).transform(() => ({ call: () => {} })),
    retry: { maxTries: 1 },
  });
  const worker: TestWorker = await bench.worker([
    implement(missing, isolated(new URL('./no-such-file.ts', import.meta.url))),
    implement(empty, isolated(new URL('../../support/isolated/empty.ts', import.meta.url))),
    implement(odd, isolated(module)),
  ]);
  const messages: unknown[] = [];
  for (const task of [missing, empty, odd]) {
    const { id } = await bench.producer.enqueue(task, {});
    await ended(id, 'dead');
    const { lastError, crashes } = await bench.job(id);
    messages.push([lastError?.kind, lastError?.message, crashes]);
  }
  expect(messages).toEqual([
    ['error', expect.stringContaining('no-such-file'), 0],
    ['error', expect.stringContaining('exports no function "handler"'), 0],
    ['error', expect.stringContaining('could not be cloned'), 0],
  ]);
  expect(worker.of('job.crashed')).toEqual([]);
});

test('at most so many run at a time', async () => {
  const { worker, finish } = await started({ concurrency: 1 });
  const { jobs, close } = createOperator({ connectionString: bench.test.url });
  const [first, second] = [await enqueue('wait'), await enqueue('return')];
  await shows(first);
  expect(worker.running).toBe(3);
  expect((await bench.job(second)).status).toBe('running');
  await jobs.cancel([first]);
  await ended(second, 'done');
  await close();
  await finish();
});

test('options are checked', () => {
  const wrong = { in: 'thread', memoryMb: 1, concurrency: 0 } as unknown as IsolatedOptions;
  expect(() => isolated('./resize.ts' as unknown as URL, wrong)).toThrow(
    /module must be a URL.*there is no in: only memoryMb, concurrency.*memoryMb.*concurrency/s,
  );
});
