import type { Attributes, Context, Link, Span, SpanContext } from '@opentelemetry/api';
import {
  context,
  createTraceState,
  diag,
  isSpanContextValid,
  ProxyTracerProvider,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import type { TraceContext } from '@pgqueue/core';
import { errorLine, isTraceparent, loggedError } from '@pgqueue/core/internal';

const scope = '@pgqueue/telemetry';
/** Stand-ins while no SDK is registered. */
const noProvider = new ProxyTracerProvider().getDelegate();

/** Reports whether an SDK is registered that takes spans. Without one, no span is begun. */
export function isTracing(): boolean {
  const provider = trace.getTracerProvider();
  return !(provider instanceof ProxyTracerProvider) || provider.getDelegate() !== noProvider;
}

/**
 * Runs code that only telemetry needs. An error of the SDK must not stop the job, the enqueue or the tick that it traces: it is told to
 * OpenTelemetry's own `diag`, and the answer is undefined.
 */
function harmless<Result>(work: () => Result): Result | undefined {
  try {
    return work();
  } catch (error) {
    diag.error('pgqueue: tracing failed', error);
    return undefined;
  }
}

/** Calls once below `active`, whatever the context manager does. */
function below<Returned>(active: Context, call: () => Returned): Returned {
  let called = false;
  let answer: { readonly returned: Returned } | undefined;
  const once = (): Returned => {
    called = true;
    answer = { returned: call() };
    return answer.returned;
  };
  try {
    return context.with(active, once);
  } catch (error) {
    if (answer !== undefined) return answer.returned;
    if (called) throw error;
    return once();
  }
}

/** Describes the destination of jobs. */
export interface Sending {
  /** Undefined: there are several. */
  readonly queue: string | undefined;
  readonly task: string | undefined;
  readonly jobs: number;
}

/** Returns the destination of jobs, for their span. */
export function sendingOf(jobs: readonly { readonly queue: string; readonly task: string }[]): Sending {
  const [first] = jobs;
  const same = (of: 'queue' | 'task'): string | undefined =>
    first !== undefined && jobs.every((job) => job[of] === first[of]) ? first[of] : undefined;
  return { queue: same('queue'), task: same('task'), jobs: jobs.length };
}

/** Returns jobs with a trace context, except for those that have one of their own. */
export function carrying<Job extends { readonly trace: TraceContext | null }>(
  jobs: readonly Job[],
  trace: TraceContext,
): readonly Job[] {
  return jobs.map((job) => (job.trace === null ? { ...job, trace } : job));
}

/**
 * A span around an enqueue, below the one that is active. `send` gets the trace context that the jobs shall carry; undefined: nobody
 * traces.
 */
export async function traceSend<Result>(
  sending: () => Sending,
  send: (carried: TraceContext | undefined) => Promise<Result>,
  ids: (result: Result) => readonly string[],
): Promise<Result> {
  if (!isTracing()) return send(undefined);
  const { queue, task, jobs } = sending();
  const begun = harmless(() => {
    const attributes: Attributes = {
      ...common('enqueue', 'send'),
      ...(queue === undefined ? {} : { 'messaging.destination.name': queue }),
      ...(task === undefined ? {} : { 'pgqueue.task': task }),
      ...(jobs === 1 ? {} : { 'messaging.batch.message_count': jobs }),
    };
    const span = tracer().startSpan(named('enqueue', queue), { kind: SpanKind.PRODUCER, attributes });
    return { span, active: trace.setSpan(context.active(), span), carried: carriedOf(span.spanContext()) };
  });
  if (begun === undefined) return send(undefined);
  const { span, active, carried } = begun;
  return below(active, async () => {
    try {
      const result = await send(carried);
      const [id] = ids(result);
      if (jobs === 1 && id !== undefined) harmless(() => span.setAttribute('messaging.message.id', id));
      return result;
    } catch (error) {
      harmless(() => fail(span, error));
      throw error;
    } finally {
      harmless(() => span.end());
    }
  });
}

/** Attributes of a job that its span carries: never its payload. */
export interface TracedJob {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly key: string;
  readonly trace: TraceContext | null;
  readonly tries: number;
  readonly crashes: number;
}

/** The span of one attempt. */
export interface AttemptSpan {
  /** Calls a handler below it. */
  readonly run: <Returned>(call: () => Returned) => Returned;
  /** Once; later calls do nothing. */
  readonly end: (outcome: string, error?: unknown) => void;
}

/**
 * The span of an attempt: a trace of its own, linked to the enqueue, which may be days old, and to which every other attempt is linked, too.
 * Undefined: nobody traces.
 */
export function startAttempt(job: TracedJob): AttemptSpan | undefined {
  if (!isTracing()) return undefined;
  const { id, queue, task, key, tries, crashes } = job;
  return consumerSpan([job], {
    'messaging.destination.name': queue,
    'messaging.message.id': id,
    'pgqueue.task': task,
    'pgqueue.attempt': tries + crashes + 1,
    ...(key === '' ? {} : { 'pgqueue.key': key }),
    ...flowAttributes(job.trace),
  });
}

/** Returns the attributes that tell a flow's spans from others. SQL producers may write any JSON here. */
function flowAttributes(carried: TraceContext | null): Attributes {
  const { flow, step } = carried ?? {};
  return {
    ...(typeof flow === 'string' ? { 'pgqueue.flow': flow } : {}),
    ...(typeof step === 'string' ? { 'pgqueue.step': step } : {}),
  };
}

/** The span of one handler call for several jobs, beside those of their attempts. */
export function startBundle(jobs: readonly TracedJob[]): AttemptSpan | undefined {
  const [first] = jobs;
  if (first === undefined || !isTracing()) return undefined;
  return consumerSpan(jobs, {
    'messaging.destination.name': first.queue,
    'messaging.batch.message_count': jobs.length,
    'pgqueue.task': first.task,
  });
}

/** A span of its own trace, linked to the enqueues of these jobs. */
function consumerSpan(jobs: readonly TracedJob[], attributes: Attributes): AttemptSpan | undefined {
  return harmless(() => {
    const options = {
      kind: SpanKind.CONSUMER,
      links: linksTo(jobs.map(({ trace: carried }) => carried)),
      attributes: { ...common('process', 'process'), ...attributes },
    };
    return spanOf(tracer().startSpan(named('process', jobs[0]?.queue), options, ROOT_CONTEXT));
  });
}

/** The span of a batch of work items, linked to the enqueues of its jobs, as far as they carry them. */
export function traceDispatch(
  carried: readonly TraceContext[],
  {
    jobs,
    startedAtMs,
    endedAtMs,
  }: { readonly jobs: number; readonly startedAtMs: number; readonly endedAtMs: number },
): void {
  if (!isTracing()) return;
  harmless(() => {
    const attributes = { ...common('dispatch', 'receive'), 'messaging.batch.message_count': jobs };
    const links = linksTo(carried);
    const options = { kind: SpanKind.CLIENT, links, attributes, startTime: new Date(startedAtMs) };
    tracer().startSpan('dispatch', options, ROOT_CONTEXT).end(new Date(endedAtMs));
  });
}

function tracer(): ReturnType<typeof trace.getTracer> {
  return trace.getTracer(scope);
}

function common(operation: string, type: 'send' | 'receive' | 'process'): Attributes {
  return {
    'messaging.system': 'pgqueue',
    'messaging.operation.name': operation,
    'messaging.operation.type': type,
  };
}

function named(operation: string, queue: string | undefined): string {
  return queue === undefined ? operation : `${operation} ${queue}`;
}

function spanOf(span: Span): AttemptSpan {
  const active: Context = trace.setSpan(ROOT_CONTEXT, span);
  let ended = false;
  return {
    run: (call) => below(active, call),
    end: (outcome, error) => {
      if (ended) return;
      ended = true;
      harmless(() => {
        span.setAttribute('pgqueue.outcome', outcome);
        if (error !== undefined) fail(span, error);
        span.end();
      });
    },
  };
}

/** As it is logged: without what a database's error quotes. */
function fail(span: Span, error: unknown): void {
  const logged = loggedError(error);
  const { name, code, stack } = logged;
  const message = errorLine(logged);
  span.setAttribute('error.type', code ?? name);
  span.recordException({
    name,
    message,
    ...(stack === undefined ? {} : { stack: `${name}: ${message}\n${stack}` }),
  });
  span.setStatus({ code: SpanStatusCode.ERROR, message });
}

/** So many links a span has at most: SDKs drop more. */
const linksMax = 128;

function linksTo(all: readonly (TraceContext | null)[]): Link[] {
  const links: Link[] = [];
  const seen = new Set<string>();
  for (const carried of all) {
    if (carried === null || seen.has(carried.traceparent) || links.length >= linksMax) continue;
    seen.add(carried.traceparent);
    const of = spanContextOf(carried);
    if (of !== undefined) links.push({ context: of });
  }
  return links;
}

/** W3C trace context, whatever propagators the process has: other languages read it in the column `trace`. */
export function carriedOf({
  traceId,
  spanId,
  traceFlags,
  traceState,
}: SpanContext): TraceContext | undefined {
  if (!isSpanContextValid({ traceId, spanId, traceFlags })) return undefined;
  const flags = (traceFlags & 0xff).toString(16).padStart(2, '0');
  const tracestate = traceState?.serialize();
  return {
    traceparent: `00-${traceId}-${spanId}-${flags}`,
    ...(tracestate === undefined || tracestate === '' ? {} : { tracestate }),
  };
}

/** Undefined: it names no span. SQL producers may write any JSON here: what is no text of `tracestate` is left out. */
export function spanContextOf({ traceparent, tracestate }: TraceContext): SpanContext | undefined {
  if (!isTraceparent(traceparent) || traceparent.startsWith('ff')) return undefined;
  const [, traceId = '', spanId = '', flags = '00'] = traceparent.split('-');
  const found: SpanContext = {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16) & 1,
    isRemote: true,
    ...(typeof tracestate === 'string' ? { traceState: createTraceState(tracestate) } : {}),
  };
  return isSpanContextValid(found) ? found : undefined;
}
