import { defineTask, flow } from '@pgqueue/core';
import { createProducer } from '@pgqueue/producer';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { useDatabase } from '../../support/database.ts';
import { listed } from '../../support/isolated/listed.ts';

const own = useDatabase();
const fetchPage = defineTask({ name: 'fetch-page', payload: z.object({}) });
const counting = flow('count-site').step('pages', [fetchPage.job({})]);

test('a flow is found by its id; its results come by page, and are of that flow only', async () => {
  const producer = createProducer({ connectionString: own.url });
  const [{ id }, other] = [await producer.start(counting), await producer.start(counting)];
  await own.sql(
    `insert into pgqueue.flow_result (flow, step, job, outcome, result, task)
     select $1, 0, pgqueue.uuid_v7(), case when n = 7 then 'dead' else 'done' end, case when n <> 7 then to_jsonb(n) end, 'fetch-page'
     from generate_series(1, 250) n`,
    [id],
  );
  const ends = await listed(producer.flow(id).results('pages'));
  expect(ends.map(({ result }) => Number(result ?? 7)).toSorted((a, b) => a - b)).toEqual(
    Array.from({ length: 250 }, (_, n) => n + 1),
  );
  expect(ends.filter(({ outcome }) => outcome !== 'done')).toHaveLength(1);
  expect(await listed(other.results('pages'))).toEqual([]);
  expect(() => producer.flow('page')).toThrow('producer.flow takes the id of a flow, a UUID, not "page"');
  await expect(listed(producer.flow(other.id).results(''))).rejects.toMatchObject({ code: 'configuration' });
  await producer.close();
  await expect(listed(other.results('pages'))).rejects.toMatchObject({ code: 'closed' });
});

test('a job that has the id of its flow, and one that has the least id of all, are jobs like others', async () => {
  const [flowId, least] = ['01a20a81-e1c0-77bc-abac-4b5be71c52fa', '00000000-0000-0000-0000-000000000000'];
  const producer = createProducer({ connectionString: own.url });
  const jobs = [flowId, least].map((id) => fetchPage.job({}, { id }));
  const run = await producer.start(flow('count-site').step('pages', jobs), { id: flowId });
  await own.sql(
    `insert into pgqueue.flow_result (flow, step, job, outcome, result, task)
     select flow, step, id, 'done', '1', task from pgqueue.queue where flow = $1`,
    [flowId],
  );
  expect(await listed(run.results('pages'))).toEqual(
    [least, flowId].map((job) => ({ job, outcome: 'done', result: 1 })),
  );
  await producer.close();
});
