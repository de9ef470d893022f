// Looks for jobs that move from one installation to another while they are looked for.
import { PgQueueError } from '@pgqueue/core';
import type { Operator, Verdicts } from '@pgqueue/postgres';
import { expect, test } from 'vitest';
import type { Member } from '../installations/member.ts';
import { verdictsOf } from '../operator/verdicts.ts';
import { findIn } from './find.ts';
import type { RouterProducerParts } from './producer.ts';
import { createRouterProducer } from './producer.ts';

const members = [1, 2].map(
  (number) => ({ installation: { number, name: `n-${number}` }, run: (work) => work() }) as Member,
);
const [first, second] = members as [Member, Member];
const id = '0198a3c2-0000-7000-8000-0000000000aa';
const notFound = (): PgQueueError => new PgQueueError('not_found', 'there is no job');

test('one that comes to an installation after that was asked, and leaves another before, is found', async () => {
  let at = second;
  const ask = (member: Member): Promise<string> => {
    const found = member === at;
    at = first;
    return found ? Promise.resolve(member.installation.name) : Promise.reject(notFound());
  };
  expect(await findIn(members, ask)).toBe('n-1');
  const nobody = findIn(members, () => Promise.reject(notFound()));
  await expect(nobody).rejects.toMatchObject({ code: 'not_found' });
});

test('so is one of a list of ids', async () => {
  let at = second;
  const ask = (operator: Operator): Promise<Verdicts<'cancelled' | 'missing'>> => {
    const found = (operator as unknown) === at;
    at = first;
    return Promise.resolve([
      { id, verdict: found ? 'cancelled' : 'missing', status: found ? 'pending' : null },
    ]);
  };
  const parts = { members, operatorOf: (member: Member) => member as unknown as Operator };
  expect(await verdictsOf(parts, [id], ask)).toMatchObject([{ id, verdict: 'cancelled' }]);
});

test('a result is awaited through any number of moves', async () => {
  let at = first;
  let moves = 0;
  const result = (member: Member, timeout: unknown): Promise<string> => {
    if (member !== at) return Promise.reject(notFound());
    if (timeout === 0) return Promise.reject(new PgQueueError('result_timeout', 'it is pending'));
    if (moves === 9) return Promise.resolve('done');
    moves += 1;
    at = at === first ? second : first;
    return Promise.reject(notFound());
  };
  const producer = createRouterProducer({
    members,
    use: () => {},
    producers: {
      plain: (member: Member) => ({
        result: (_job: unknown, options: { readonly timeout: unknown }) => result(member, options.timeout),
      }),
    },
  } as unknown as RouterProducerParts);
  expect(await producer.result({ id, outcome: 'enqueued' })).toBe('done');
});
