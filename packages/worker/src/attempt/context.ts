import type { DurableContext, JobContext, JobLogger, Task } from '@pgqueue/core';
import { durationMs } from '@pgqueue/core/internal';
import type { Attempt } from './attempt.ts';
import { keepCheckpoint } from './checkpoint.ts';
import { addedRows } from '../flow/added-jobs.ts';
import { createNeeds } from '../flow/needs.ts';
import type { NeededSteps, NodePort } from '../flow/node-port.ts';
import { portKey } from '../flow/node-port.ts';
import { createDurable } from '../durable/steps.ts';
import { durablePort } from './durable-port.ts';
import { jobPort } from './job-port.ts';
import { encodedResult } from '../codec/encoding.ts';
import { resultData } from '../lease/result.ts';
import type { LeaseParts, ResultsOf } from './lease-calls.ts';
import { extendLeases, loggerWith, settleIn, settleWith } from './lease-calls.ts';
import type { Progress } from './progress.ts';
import { createProgress } from './progress.ts';

/**
 * Context that a handler receives with its payload. Its members are created on first access, since most
 * handlers use few. They are own properties, like those of a plain object, because handlers destructure and
 * spread a context. An object literal with getters would take longer to create than everything else of a
 * small job.
 */
export function contextOf(parts: LeaseParts, attempt: Attempt, given: ContextInput): JobContext {
  return new Proxy<JobContext>(new Context(parts, attempt, given), ownProperties);
}

/** Facts of an attempt that were read and checked before its handler begins. */
export interface ContextInput {
  readonly task: Task;
  readonly checkpoint: unknown;
  readonly needs: NeededSteps;
}

class Context implements JobContext {
  readonly #parts: LeaseParts;
  readonly #attempt: Attempt;
  readonly #task: Task;
  readonly #given: ContextInput;
  #job: JobContext['job'] | undefined;
  #port: NodePort | undefined;
  #durable: DurableContext | undefined;
  #needs: JobContext['needs'] | undefined;
  #log: JobLogger | undefined;
  #progress: Progress | undefined;

  constructor(parts: LeaseParts, attempt: Attempt, given: ContextInput) {
    this.#parts = parts;
    this.#attempt = attempt;
    this.#task = given.task;
    this.#given = given;
  }

  get job(): JobContext['job'] {
    return (this.#job ??= { ...jobOf(this.#attempt), checkpoint: this.#given.checkpoint });
  }

  get needs(): JobContext['needs'] {
    return (this.#needs ??= createNeeds(this[portKey]));
  }

  get log(): JobLogger {
    const { id, task, tries } = this.#attempt.job;
    return (this.#log ??= loggerWith(this.#parts.logger, { job: id, task, try: tries + 1 }));
  }

  get signal(): AbortSignal {
    return this.#attempt.signal;
  }

  get extend(): JobContext['extend'] {
    return async (by) => extendLeases(this.#parts, [this.#attempt], durationMs(by, 'extend'));
  }

  get progress(): JobContext['progress'] {
    return async (value) => {
      this.#progress ??= createProgress(this.#parts, [this.#attempt]);
      return this.#progress(value);
    };
  }

  get checkpoint(): JobContext['checkpoint'] {
    const kept = { task: this.#task, attempt: this.#attempt };
    return async (data) => keepCheckpoint(this.#parts, kept, data);
  }

  get addJobs(): JobContext['addJobs'] {
    const { key } = this.#attempt.job;
    return async (jobs) =>
      this[portKey].addJobs(await addedRows(jobs, { key, needs: this.#given.needs.names }, 'ctx.addJobs'));
  }

  get step(): JobContext['step'] {
    return this.#steps.step;
  }

  get sleep(): JobContext['sleep'] {
    return this.#steps.sleep;
  }

  get all(): JobContext['all'] {
    return this.#steps.all;
  }

  get waitForSignal(): JobContext['waitForSignal'] {
    return this.#steps.waitForSignal;
  }

  get #steps(): DurableContext {
    return (this.#durable ??= createDurable(this[portKey], this.#attempt.job));
  }

  get [portKey](): NodePort {
    return (this.#port ??= {
      ...jobPort(this.#parts, this.#attempt, this.#given),
      ...durablePort(this.#parts, this.#attempt),
    });
  }

  get transaction(): JobContext['transaction'] {
    const results = this.#task.checkResult === undefined ? undefined : this.#results;
    return async (work) => settleWith(this.#parts, [this.#attempt], { work, results });
  }

  get settleIn(): JobContext['settleIn'] {
    return async (run) => settleIn(this.#parts, [this.#attempt], { run, results: this.#results });
  }

  get #results(): ResultsOf {
    return (value) => {
      const stored = (text: string | null): readonly [string | null] => [
        encodedResult(this.#parts.codec, this.#attempt.job, { text, strict }).data,
      ];
      const strict = this.#task.checkResult !== undefined;
      const data = resultData(this.#task, value);
      return data instanceof Promise ? data.then(stored) : stored(data);
    };
  }
}

const own: Readonly<Record<keyof JobContext, true>> = {
  job: true,
  needs: true,
  log: true,
  signal: true,
  extend: true,
  progress: true,
  checkpoint: true,
  addJobs: true,
  step: true,
  sleep: true,
  all: true,
  waitForSignal: true,
  transaction: true,
  settleIn: true,
};
const names: ReadonlySet<string | symbol> = new Set(Object.keys(own));

const ownProperties: ProxyHandler<JobContext> = {
  get: (context, name) => Reflect.get(context, name) as unknown,
  ownKeys: (context) => [...names, ...Reflect.ownKeys(context)],
  getOwnPropertyDescriptor: (context, name) =>
    names.has(name)
      ? { value: Reflect.get(context, name) as unknown, enumerable: true, configurable: true }
      : Reflect.getOwnPropertyDescriptor(context, name),
};

/** Returns the job as handlers see it: without payload, token and position. */
export function jobOf(attempt: Attempt): JobContext['job'] {
  const { payload: _payload, token: _token, position: _position, ...job } = attempt.job;
  return job;
}
