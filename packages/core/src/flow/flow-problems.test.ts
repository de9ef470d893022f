import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { PgQueueError } from '../errors.ts';
import type { NewJob } from '../job/job.ts';
import { defineTask } from '../job/task.ts';
import type { Flow } from './flow.ts';
import { flow } from './flow.ts';
import type { AnyFlow } from './step.ts';
import { signal, timer } from './step.ts';
import type { FlowOptions, FlowRow } from './to-flow-row.ts';
import { toFlowRow } from './to-flow-row.ts';

const fetchPage = defineTask({ name: 'fetch-page', payload: z.object({ url: z.string() }) });
const sumUp = defineTask({ name: 'sum-up', payload: z.object({}), needs: { pages: fetchPage } });
const publish = defineTask({
  name: 'publish',
  payload: z.object({}),
  needs: { ok: z.object({ by: z.string() }) },
});
const plain = defineTask({ name: 'plain', payload: z.object({}), key: 'own' });
const flowId = '017f22e2-79b0-7cc3-98c4-dc0c0c07398f';
const page = fetchPage.job({ url: 'https://example.com' });

async function row(given: unknown, options: unknown): Promise<FlowRow> {
  let n = 0;
  return toFlowRow(given as AnyFlow, options as FlowOptions, () => String((n += 1)));
}

async function refusal(given: unknown, options: unknown = {}): Promise<PgQueueError> {
  const error: unknown = await row(given, options).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(PgQueueError);
  expect(error).toMatchObject({ code: 'invalid_flow' });
  return error as PgQueueError;
}

async function problems(given: unknown, options: unknown = {}): Promise<readonly string[]> {
  return (await refusal(given, options)).data['problems'] as readonly string[];
}

/** Flow whose types say nothing about its steps, as JavaScript sees one. */
function loose(name = 'loose'): Flow {
  return flow(name);
}

describe('what is wrong is told', () => {
  const job = plain.job({});
  const name = 'n'.repeat(201);

  test.each<[string, unknown, readonly string[]]>([
    ['no steps', flow('a'), ['it has no steps']],
    ['its name', flow('').step('a', job), ['its name must be a text of 1 to 200 characters, not ""']],
    ['its name', flow(5 as never).step('a', job), ['its name must be a text of 1 to 200 characters, not 5']],
    [
      'its name',
      flow('a\u0000').step('a', job),
      ["its name must not contain NUL or lone surrogates, which PostgreSQL can't store"],
    ],
    [
      'a long step name',
      loose().step(name, job),
      ['the step at 0: its name must be a text of 1 to 200 characters, not a text of 201 characters'],
    ],
    [
      'a step name with a surrogate',
      loose().step('\ud83e', job),
      ["the step at 0: its name must not contain NUL or lone surrogates, which PostgreSQL can't store"],
    ],
    ['a step __proto__', loose().step('__proto__', job), ['the step at 0: its name must not be __proto__']],
    [
      'a symbol as a name',
      loose().step(Symbol('x') as never, job),
      ['the step at 0: its name must be a text of 1 to 200 characters, not symbol'],
    ],
    ['a name that is there', loose().step('a', job).step('a', job), ['step "a" is there twice']],
    [
      'a need that is no step',
      loose()
        .step('pages', job)
        .step('b', job, { needs: ['pagse'] }),
      ['step "b": needs "pagse", which is no step: did you mean "pages"?'],
    ],
    [
      'a need of __proto__',
      loose().step('b', job, { needs: JSON.parse('{"__proto__":"done"}') as never }),
      ['step "b": needs "__proto__", which is no step'],
    ],
    [
      'a need of a flow',
      loose()
        .step('sub', flow('i').step('x', job))
        .step('b', job, { needs: ['sub'] }),
      ['step "b": "sub" is a flow: name the steps of it that are needed, such as "sub.x"'],
    ],
    [
      'a condition',
      loose()
        .step('a', job)
        .step('b', job, { needs: { a: 'dead' as never } }),
      ['step "b": needs.a must be "done" or "ended" or "failed", not "dead"'],
    ],
    [
      'needs',
      loose().step('b', job, { needs: 'a' as never }),
      ['step "b": needs must be a list of steps, or an object with a condition for each step, not "a"'],
    ],
    [
      'an unknown option',
      loose().step('b', job, { need: ['a'] } as never),
      ['step "b": there is no need: did you mean needs?'],
    ],
    ['options', loose().step('b', job, 5 as never), ['step "b": its options must be an object, not 5']],
    [
      'wants',
      loose()
        .step('a', job)
        .step('b', job, { needs: ['a'], wants: 'some' as never }),
      ['step "b": wants must be "all" or "any", not "some"'],
    ],
    [
      'wants without needs',
      loose().step('b', job, { wants: 'any' }),
      ['step "b": wants "any" is for steps with needs'],
    ],
    [
      'stopAfter',
      loose().step('b', job, { stopAfter: 0 }),
      ['step "b": stopAfter must be a whole number from 1 to 100000, not 0'],
    ],
    [
      'stopAfter of a timer',
      loose().step('b', timer(5), { stopAfter: 1 }),
      ['step "b": stopAfter is for steps of jobs'],
    ],
    [
      'a timer',
      loose().step('b', timer('5 days' as never)),
      ['step "b": its timer takes a duration of up to 3650d, such as "3d", not "5 days"'],
    ],
    [
      'a signal',
      loose().step('b', signal(undefined as never)),
      ['step "b": the schema of the signal must be given: a Standard Schema (zod, valibot, arktype, …)'],
    ],
    [
      'a task in place of a job',
      loose().step('b', plain as never),
      [
        'step "b": it must be a job, a list of jobs, signal(schema), timer(duration) or a flow, not an object',
      ],
    ],
    [
      'a list of something else',
      loose().step('b', [job, 5] as never),
      ['step "b": jobs[1] must be what task.job(payload) returns, not 5'],
    ],
    ['a nested flow without steps', loose().step('b', flow('i')), ['step "b" has no steps']],
    [
      'a nested name that gets too long',
      loose().step('n'.repeat(199), flow('i').step('x', job)),
      [
        'the step at 1: its name with those around it must be a text of 1 to 200 characters, not a text of 201 characters',
      ],
    ],
    [
      'a need of itself',
      loose().step('a', job, { needs: ['a'] }),
      ['its steps need each other in a cycle: "a" → "a"'],
    ],
    [
      'a cycle',
      loose()
        .step('x', job)
        .step('a', job, { needs: ['x', 'c'] })
        .step('b', job, { needs: ['a'] })
        .step('c', job, { needs: ['b'] }),
      ['its steps need each other in a cycle: "a" → "c" → "b" → "a"'],
    ],
    [
      'a task with another step',
      loose().step('pages', job).step('sum', sumUp.job({})),
      ['step "sum": its task needs jobs of task "fetch-page" in step "pages"'],
    ],
    [
      'a task without its step',
      loose().step('sum', sumUp.job({})),
      ['step "sum": needs "pages", which is no step'],
    ],
    [
      'a task without its signal',
      loose().step('ok', job).step('p', publish.job({})),
      ['step "p": its task needs a signal in step "ok"'],
    ],
  ])('%s (case %#)', async (_what, given, told) => {
    expect(await problems(given)).toEqual(told);
  });

  test('a long cycle is told in part', async () => {
    let circle = loose();
    for (let n = 0; n < 500; n += 1) circle = circle.step(`s${n}`, [], { needs: [`s${(n + 1) % 500}`] });
    expect((await problems(circle))[0]).toMatch(/"s0" → .*"s9" → 490 more → "s0"$/);
  });

  test('payloads that do not fit, by step and index, with everything else', async () => {
    const wrong = fetchPage.job({ url: 5 } as never, { queue: '' });
    const given = loose('all')
      .step('pages', [page, wrong, page, wrong])
      .step('sum', sumUp.job({}), { needs: ['nope'] });
    const error = await refusal(given, { deadline: 0, key: 5 });
    expect(error.data['problems']).toEqual([
      'key must be a text of 0 to 200 characters, not 5',
      'deadline must be a positive duration: milliseconds, or a text such as "7d", not 0',
      'step "sum": needs "nope", which is no step',
      expect.stringMatching(/^step "pages", jobs\[1\] of task "fetch-page": url: .*; queue must be/),
      expect.stringMatching(/^step "pages", jobs\[3\] of task "fetch-page": url: /),
    ]);
    expect(error.data['jobs']).toEqual(
      [1, 3].map((index) => ({
        step: 'pages',
        index,
        task: 'fetch-page',
        problems: [expect.stringContaining('url'), expect.stringContaining('queue')],
      })),
    );
    expect(error.message).toMatch(/^flow "all" can't be started: key must/);
  });

  test('payloads of an asynchronous schema', async () => {
    const slow = defineTask({
      name: 'slow',
      payload: z.object({}).refine(() => Promise.resolve(false), 'no'),
    });
    expect(await problems(flow('f').step('a', slow.job({})))).toEqual([
      'step "a", jobs[0] of task "slow": no',
    ]);
  });

  test('only ten invalid jobs, and twenty problems', async () => {
    const wrong = fetchPage.job({} as never);
    expect(
      (
        await refusal(
          flow('f').step(
            'a',
            Array.from({ length: 50 }, () => wrong),
          ),
        )
      ).data['jobs'],
    ).toHaveLength(10);
    let many = loose();
    for (let n = 0; n < 50; n += 1) many = many.step(`s${n}`, job, { needs: ['nope'] });
    const told = await problems(many);
    expect(told).toHaveLength(21);
    expect(told.at(-1)).toBe('and 30 more');
  });

  test('a unique key of a job, and an id that two jobs have', async () => {
    const same = plain.job({}, { id: flowId });
    const jobs = [plain.job({}, { uniqueKey: 'u' }), same, same];
    expect(await problems(flow('f').step('a', jobs))).toEqual([
      'step "a", jobs[0] of task "plain": a job of a flow has no uniqueKey: give one to the flow, when it is started',
      `step "a", jobs[2] of task "plain": another job of the flow has the id ${flowId}, too`,
    ]);
  });

  test.each<[string, unknown, string]>([
    ['id', { id: 'x' }, 'id must be a UUID, not "x"'],
    [
      'key',
      { key: 'k'.repeat(201) },
      'key must be a text of 0 to 200 characters, not a text of 201 characters',
    ],
    ['uniqueKey', { uniqueKey: '' }, 'uniqueKey must be a text of 1 to 500 characters, not ""'],
    [
      'deadline',
      { deadline: '1 day' },
      'deadline must be a positive duration: milliseconds, or a text such as "7d", not "1 day"',
    ],
    ['trace', { trace: { traceparent: 'x' } }, 'trace.traceparent must be a W3C traceparent, not "x"'],
    ['a misspelt option', { unique: 'x' }, 'there is no unique: did you mean uniqueKey?'],
    ['null', null, 'its options must be an object, not null'],
  ])('an option of the start: %s', async (_name, options, told) => {
    expect(await problems(flow('f').step('a', job), options)).toEqual([told]);
  });

  test('too many jobs, needs and bytes', async () => {
    const jobs = Array.from({ length: 50_001 }, () => page);
    expect(await problems(flow('f').step('a', jobs).step('b', jobs))).toEqual([
      'it has 100002 jobs, more than 100000: add the others from a job of the step',
    ]);
    const big = fetchPage.job({ url: 'x'.repeat(262_000) });
    expect(
      await problems(
        flow('f').step(
          'a',
          Array.from({ length: 257 }, () => big),
        ),
      ),
    ).toEqual([expect.stringMatching(/^its payloads and attributes have 673\d+ bytes, more than 67108864/)]);
    let wide = loose();
    const names = Array.from({ length: 1_001 }, (_, n) => `s${n}`);
    for (const one of names) wide = wide.step(one, []);
    for (let n = 0; n < 100; n += 1) wide = wide.step(`t${n}`, [], { needs: names });
    expect(await problems(wide)).toEqual(['it has 100100 needs, more than 100000']);
  });

  test('a flow that holds itself again and again takes no longer than another', async () => {
    let twice = flow('f').step('a', job) as Flow;
    for (let n = 0; n < 60; n += 1) twice = loose().step('a', twice).step('b', twice);
    expect(await problems(twice)).toContainEqual('it has more than 10000 steps');
  });
});

describe('hostile values', () => {
  const throwing = new Proxy(
    {},
    {
      get: () => {
        throw new Error('mine');
      },
      ownKeys: () => {
        throw new Error('mine');
      },
    },
  );
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  const trap: NewJob = {
    ...page,
    get options(): never {
      throw new Error('mine');
    },
  };

  test.each<[string, unknown]>([
    ['undefined', undefined],
    ['null', null],
    ['a text', 'count-site'],
    ['an object', {}],
    ['a list', []],
    ['a proxy that throws', throwing],
    ['a revoked proxy', proxy],
    ['steps that are none', { kind: 'pgqueue.flow', name: 'x', steps: [null, 5, {}] }],
    ['steps that throw', { kind: 'pgqueue.flow', name: 'x', steps: [throwing] }],
    ['a step of a proxy', loose().step('a', proxy as never)],
    ['options of a proxy', loose().step('a', page, proxy)],
    ['needs of a proxy', loose().step('a', page, { needs: proxy as never })],
    [
      'a job with a getter that throws',
      {
        kind: 'pgqueue.flow',
        name: 'x',
        steps: [{ name: 'a', work: trap, needs: [], wants: 'all', stopAfter: null, problems: [] }],
      },
    ],
    [
      'a flow that holds itself',
      (() => {
        const self: Record<string, unknown> = { kind: 'pgqueue.flow', name: 'x' };
        self['steps'] = [1, 2].map((n) => ({
          name: `${n}`,
          work: self,
          needs: [],
          wants: 'all',
          stopAfter: null,
          problems: [],
        }));
        return self;
      })(),
    ],
  ])('%s is refused with invalid_flow', async (_what, given) => {
    expect((await refusal(given)).message).not.toBe('');
  });

  test('options whose getters change their minds are read once', async () => {
    let reads = 0;
    const options = {
      get uniqueKey() {
        reads += 1;
        return reads > 1 ? 5 : 'u';
      },
    };
    expect((await row(flow('f').step('a', page), options)).uniqueKey).toBe('u');
  });
});
