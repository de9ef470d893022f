import type { AnyFlow, Enqueued, FlowOptions, JobOptions, NewJob, StepsOf } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import { checkJobList, isTask } from '@pgqueue/core/internal';
import type { FlowRunOf, Producer, ResultOptions } from '@pgqueue/producer';
import { waitMs } from '@pgqueue/producer/internal';
import type { Member } from '../installations/member.ts';
import type { Routes } from '../route/routes.ts';
import type { IdOf } from '@pgqueue/postgres/internal';
import { knownElsewhere } from './before.ts';
import { findIn, lookUpOrder, untilAborted } from './find.ts';
import { flowIn } from './flow.ts';
import { enqueueSplit } from './many.ts';
import type { Producers } from './members.ts';
import { learnMove } from './moved.ts';
import type { Spread } from './spread.ts';

/**
 * Enqueues over all installations. A job goes to the home of its key; without a key, to one of them, by its unique key or
 * its id if it has one. A unique key is unique among the jobs of one home: of one key, or of those without. An id that the caller
 * chose is looked for in all other installations first.
 *
 * `enqueueMany` splits a batch by home: the jobs of one installation are enqueued all or none. If only some succeed, it
 * rejects with `installation`: `data.failed` tells which jobs were not, and why, and `data.enqueued` the outcomes of the
 * others. A flow starts in the home of its key, and all its jobs stay there.
 *
 * Enqueues in a transaction belong to one database: see `router.at`.
 */
export type RouterProducer = Omit<Producer, 'with' | 'close'>;

export interface RouterProducerParts {
  readonly members: readonly Member[];
  readonly routes: Routes;
  readonly spread: Spread;
  readonly producers: Producers;
  /** Throws when the router was closed; begins to read routes. */
  readonly use: () => void;
}

/** Something that is enqueued in the home of its key. */
interface Single<Result> {
  readonly of: IdOf;
  /** Name of its task or flow. */
  readonly name: string;
  readonly options: JobOptions | FlowOptions | undefined;
  /** @param id the one that it had when it was refused before; undefined: it has none yet */
  readonly enqueue: (producer: Producer, id: string | undefined) => Promise<Result>;
  /** Returns the result if it was written there before, although it was refused now, or its home is elsewhere. */
  readonly written: (id: string, member: Member) => Result | Promise<Result>;
}

/** Enqueues in the home of a key, again where the key went if it has moved. */
async function enqueueAtHome<Result>(
  parts: RouterProducerParts,
  { of, name, options, enqueue, written }: Single<Result>,
): Promise<Result> {
  const { members, spread, producers, use } = parts;
  use();
  const given = typeof options === 'object' && options !== null ? options : {};
  let member = spread(given, name);
  if (given.id !== undefined) {
    const before = await knownElsewhere(members, of, [{ id: given.id, home: member }]);
    for (const [known, elsewhere] of before) return written(known, elsewhere);
  }
  let id: string | undefined;
  for (let refusals = 0; ; refusals += 1) {
    try {
      return await member.run(() => enqueue(producers.routed(member), id));
    } catch (error) {
      const { ids, known } = await learnMove(error, { ...parts, member, refusals });
      [id] = ids;
      if (id !== undefined && known.has(id)) return written(id, member);
      member = spread(given, name);
    }
  }
}

export function createRouterProducer(parts: RouterProducerParts): RouterProducer {
  const { members, producers, use } = parts;
  const one = (
    name: string,
    options: JobOptions | undefined,
    enqueue: Single<Enqueued>['enqueue'],
  ): Promise<Enqueued> =>
    enqueueAtHome(parts, {
      of: 'job',
      name,
      options,
      enqueue,
      written: (id) => ({ id, outcome: 'repeated' }),
    });

  return {
    enqueue: async (task, payload, options) => {
      if (!isTask(task))
        throw new PgQueueError(
          'invalid_job',
          'enqueue takes a task, made by defineTask; enqueueByName takes its name',
        );
      const { options: merged } = task.job(payload, options);
      const enqueued = await one(task.name, merged, (producer, id) =>
        producer.enqueue(task, payload, id === undefined ? options : { ...options, id }),
      );
      return enqueued as Enqueued<never>;
    },
    enqueueByName: (name, payload, options) =>
      one(name, options, (producer, id) =>
        producer.enqueueByName(name, payload, id === undefined ? options : { ...options, id }),
      ),
    enqueueMany: (async (jobs: readonly NewJob[]) => {
      use();
      checkJobList(jobs, 'enqueueMany');
      return enqueueSplit(parts, jobs);
    }) as Producer['enqueueMany'],
    start: (flow, options) => startFlow(parts, flow, options),
    signal: async (flowId, step, value, by) => {
      use();
      return findIn(lookUpOrder(members, flowId), (member) =>
        producers.plain(member).signal(flowId, step, value, by),
      );
    },
    signalJob: async (jobId, name, value, by) => {
      use();
      return findIn(lookUpOrder(members, jobId), (member) =>
        producers.plain(member).signalJob(jobId, name, value, by),
      );
    },
    flow: <Of extends AnyFlow>(id: string) => {
      use();
      return flowIn<Of>(members, producers, id);
    },
    result: async (job, options) => {
      use();
      return awaitResult(parts, job, options);
    },
  };
}

/** Starts a flow in the home of its key. */
async function startFlow<Of extends AnyFlow>(
  parts: RouterProducerParts,
  flow: Of,
  options: FlowOptions = {},
): Promise<FlowRunOf<StepsOf<Of>>> {
  const under = (id: string | undefined): FlowOptions => (id === undefined ? options : { ...options, id });
  return enqueueAtHome(parts, {
    of: 'flow',
    name: flow?.name,
    options,
    enqueue: (producer, id) => producer.start(flow, under(id)),
    // it stays there
    written: (id, member) => member.run(() => parts.producers.plain(member).start(flow, under(id))),
  });
}

/** Answer of the installation that has a job: its result, or that it goes on there. */
type Found<Result> =
  | { readonly kind: 'ended'; readonly value: Result }
  | { readonly kind: 'open'; readonly member: Member };

async function awaitResult<Result>(
  parts: RouterProducerParts,
  job: string | Enqueued<Result>,
  options: ResultOptions = {},
): Promise<Result> {
  return untilAborted(options, findResult(parts, job, options));
}

async function findResult<Result>(
  { members, producers }: RouterProducerParts,
  job: string | Enqueued<Result>,
  options: ResultOptions,
): Promise<Result> {
  const endsAt = performance.now() + waitMs('producer.result', options);
  const id: unknown = typeof job === 'object' && job !== null ? job.id : job;
  const order = lookUpOrder(members, String(id));
  const look = async (member: Member): Promise<Found<Result>> => {
    if (order.length === 1) return { kind: 'open', member };
    try {
      return { kind: 'ended', value: await producers.plain(member).result(job, { ...options, timeout: 0 }) };
    } catch (error) {
      const open = !(error instanceof PgQueueError) || error.code === 'result_timeout';
      if (open && performance.now() < endsAt) return { kind: 'open', member };
      throw error;
    }
  };
  // again each time that it moves while it is awaited, until a look fails, or finds it when the time is up
  for (;;) {
    const found = await findIn(order, look);
    if (found.kind === 'ended') return found.value;
    const { member } = found;
    try {
      const timeout = Math.max(0, endsAt - performance.now());
      return await member.run(() => producers.plain(member).result(job, { ...options, timeout }));
    } catch (error) {
      const vanished = error instanceof PgQueueError && error.code === 'not_found';
      if (!vanished || order.length === 1) throw error;
    }
  }
}
