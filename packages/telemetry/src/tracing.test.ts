import type { Context, ContextManager, Span, TracerProvider } from '@opentelemetry/api';
import { context, diag, DiagLogLevel, INVALID_SPAN_CONTEXT, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { TracedJob } from './tracing.ts';
import { spanContextOf, startAttempt, startBundle, traceDispatch, traceSend } from './tracing.ts';

const job: TracedJob = {
  id: 'id',
  queue: 'default',
  task: 'task',
  key: '',
  trace: { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' },
  tries: 0,
  crashes: 0,
};

const broken = (): never => {
  throw new Error('the SDK is broken');
};

/** A span of which `part` throws. */
function spanWithout(part: string): Span {
  const calls = new Proxy({} as Span, {
    get: (_none, name) => {
      if (name === part) return broken;
      return name === 'spanContext' ? () => INVALID_SPAN_CONTEXT : () => calls;
    },
  });
  return calls;
}

const sdks: Readonly<Record<string, TracerProvider>> = {
  getTracer: { getTracer: broken },
  startSpan: { getTracer: () => ({ startSpan: broken, startActiveSpan: broken }) },
  ...Object.fromEntries(
    ['setAttribute', 'recordException', 'setStatus', 'spanContext', 'end'].map((part) => [
      part,
      { getTracer: () => ({ startSpan: () => spanWithout(part), startActiveSpan: broken }) },
    ]),
  ),
};

const told = vi.fn<(...said: unknown[]) => void>();
beforeEach(() => {
  told.mockClear();
  const quiet = (): void => {};
  diag.setLogger(
    { error: told, warn: quiet, info: quiet, debug: quiet, verbose: quiet },
    { logLevel: DiagLogLevel.ERROR, suppressOverrideMessage: true },
  );
});
afterEach(() => {
  diag.disable();
  trace.disable();
  context.disable();
});

test.each(Object.keys(sdks))('an SDK whose %s throws stops nothing, and is told of', async (part) => {
  trace.setGlobalTracerProvider(sdks[part] as TracerProvider);
  const error = new Error('of the handler');
  for (const start of [() => startAttempt(job), () => startBundle([job, job])]) {
    const span = start();
    expect(span === undefined ? 'run' : span.run(() => 'run')).toBe('run');
    span?.end('retry', error);
  }
  traceDispatch([job.trace as never], { jobs: 1, startedAtMs: 0, endedAtMs: 1 });
  const sending = () => ({ queue: 'default', task: 'task', jobs: 1 });
  const ids = (): readonly string[] => ['id'];
  expect(await traceSend(sending, () => Promise.resolve('sent'), ids)).toBe('sent');
  await expect(traceSend(sending, () => Promise.reject(error), ids)).rejects.toBe(error);
  expect(told).toHaveBeenCalled();
});

test.each(['before', 'after'])('a context manager that throws %s the call lets it happen once', (when) => {
  const manager: ContextManager = {
    active: () => ROOT_CONTEXT,
    with: ((_active: Context, call: () => unknown) => {
      if (when === 'after') call();
      return broken();
    }) as ContextManager['with'],
    bind: (_active, target) => target,
    enable: () => manager,
    disable: () => manager,
  };
  context.setGlobalContextManager(manager);
  trace.setGlobalTracerProvider({
    getTracer: () => ({ startSpan: () => spanWithout('none'), startActiveSpan: broken }),
  });
  const span = startAttempt(job);
  const call = vi.fn<() => string>(() => 'run');
  expect(span?.run(call)).toBe('run');
  expect(call).toHaveBeenCalledTimes(1);
  const failing = vi.fn<() => never>(() => {
    throw new Error('of the handler');
  });
  expect(() => span?.run(failing)).toThrow('of the handler');
  expect(failing).toHaveBeenCalledTimes(1);
});

test.each([[{}], [[]], [7], [null], [false]])('a tracestate that is %j is left out', (tracestate) => {
  const carried = { ...job.trace, tracestate } as never;
  expect(spanContextOf(carried)).toMatchObject({ spanId: 'b7ad6b7169203331' });
});
