import { describe, expect, test } from 'vitest';
import { z } from 'zod';
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
const approval = signal(z.object({ by: z.string() }));
const flowId = '017f22e2-79b0-7cc3-98c4-dc0c0c07398f';

function ids(): () => string {
  let n = 0;
  return () => `00000000-0000-7000-8000-${String((n += 1)).padStart(12, '0')}`;
}

async function row(given: AnyFlow, options: FlowOptions = {}): Promise<FlowRow> {
  return toFlowRow(given, options, ids());
}

/** Flow whose types say nothing about its steps, as JavaScript sees one. */
function loose(name = 'loose'): Flow {
  return flow(name);
}

const page = fetchPage.job({ url: 'https://example.com' });
const counting = flow('count-site')
  .step('pages', [page, page])
  .step('sum', sumUp.job({}), { needs: { pages: 'ended' } })
  .step('ok', approval, { needs: ['sum'] })
  .step('late', timer('3d'), { needs: ['sum'] })
  .step('publish', publish.job({}), { needs: { ok: 'done', late: 'done' }, wants: 'any' });

describe('a flow', () => {
  test('becomes a row with steps by index', async () => {
    const made = await row(counting, { key: 'acme', uniqueKey: 'site-7', deadline: '7d' });
    expect(made).toMatchObject({
      name: 'count-site',
      key: 'acme',
      uniqueKey: 'site-7',
      deadlineMs: 604_800_000,
      trace: null,
    });
    expect(made.steps.map(({ jobs, ...step }) => ({ ...step, jobs: jobs.length }))).toEqual([
      { name: 'pages', kind: 'jobs', wants: 'all', needs: [], delayMs: null, stopAfter: null, jobs: 2 },
      {
        name: 'sum',
        kind: 'jobs',
        wants: 'all',
        needs: [[0, 'ended']],
        delayMs: null,
        stopAfter: null,
        jobs: 1,
      },
      {
        name: 'ok',
        kind: 'signal',
        wants: 'all',
        needs: [[1, 'done']],
        delayMs: null,
        stopAfter: null,
        jobs: 0,
      },
      {
        name: 'late',
        kind: 'timer',
        wants: 'all',
        needs: [[1, 'done']],
        delayMs: 259_200_000,
        stopAfter: null,
        jobs: 0,
      },
      {
        name: 'publish',
        kind: 'jobs',
        wants: 'any',
        needs: [
          [2, 'done'],
          [3, 'done'],
        ],
        delayMs: null,
        stopAfter: null,
        jobs: 1,
      },
    ]);
    const [first] = made.steps;
    expect(first?.jobs[1]).toMatchObject({
      task: 'fetch-page',
      key: 'acme',
      payload: '{"url":"https://example.com"}',
    });
    const all = [made.id, ...made.steps.flatMap(({ jobs }) => jobs.map(({ id }) => id))];
    expect(new Set(all).size).toBe(5);
    expect(all.toSorted()).toEqual(all);
  });

  test('never changes: each step makes another flow', async () => {
    const list = [page];
    const one = flow('one').step('a', list);
    const two = one.step('b', plain.job({}));
    list.push(page);
    expect((await row(one)).steps.map(({ jobs }) => jobs.length)).toEqual([1]);
    expect((await row(two)).steps.map(({ name }) => name)).toEqual(['a', 'b']);
  });

  test('keeps the id of the caller, and the keys that jobs have of their own', async () => {
    const jobs = [plain.job({}), plain.job({}, { key: '' }), page];
    const made = await row(flow('keys').step('a', jobs), { id: flowId.toUpperCase(), key: 'flow' });
    expect(made.id).toBe(flowId);
    expect(made.steps[0]?.jobs.map(({ key }) => key)).toEqual(['own', '', 'flow']);
  });

  test('waits for what its tasks read, unless the step says how', async () => {
    const made = await row(
      flow('implied')
        .step('pages', [])
        .step('x', plain.job({}))
        .step('sum', sumUp.job({}), { needs: ['x'] }),
    );
    expect(made.steps[2]?.needs).toEqual([
      [1, 'done'],
      [0, 'done'],
    ]);
    expect(made.steps[0]?.jobs).toEqual([]);
  });

  test('may name needs that come later: its row has them first', async () => {
    const made = await row(
      loose()
        .step('c', plain.job({}), { needs: ['b', 'a'] })
        .step('b', plain.job({}), { needs: { a: 'failed' } })
        .step('a', plain.job({})),
    );
    expect(made.steps.map(({ name, needs }) => [name, needs])).toEqual([
      ['a', []],
      ['b', [[0, 'failed']]],
      [
        'c',
        [
          [1, 'done'],
          [0, 'done'],
        ],
      ],
    ]);
  });

  test('takes in another flow under a prefix, behind its needs', async () => {
    const inner = flow('inner').step('pages', [page]).step('x', plain.job({})).step('sum', sumUp.job({}));
    const outer = flow('outer')
      .step('pages', plain.job({}))
      .step('site', inner, { needs: { pages: 'ended' }, wants: 'any' })
      .step('end', plain.job({}), { needs: ['site.sum'] });
    const made = await row(flow('outermost').step('all', outer));
    expect(made.steps.map(({ name, needs, wants }) => [name, needs, wants])).toEqual([
      ['all.pages', [], 'all'],
      ['all.site.pages', [[0, 'ended']], 'any'],
      ['all.site.x', [[0, 'ended']], 'any'],
      ['all.site.sum', [[1, 'done']], 'all'],
      ['all.end', [[3, 'done']], 'all'],
    ]);
  });

  test('of 10,000 steps in a chain is taken', async () => {
    let chain = loose('chain');
    for (let n = 0; n < 10_000; n += 1)
      chain = chain.step(`s${n}`, [], n === 0 ? {} : { needs: [`s${n - 1}`] });
    const made = await row(chain);
    expect(made.steps.at(-1)).toMatchObject({ name: 's9999', needs: [[9_998, 'done']] });
    await expect(row(chain.step('more', []))).rejects.toThrow('it has more than 10000 steps');
  });
});
