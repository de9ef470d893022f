import { randomUUID } from 'node:crypto';
import type { Lease } from '@pgqueue/postgres/internal';
import { signalFlowId } from '@pgqueue/postgres/internal';
import { beforeEach, expect, test } from 'vitest';
import { opened } from '../../support/database.ts';
import { emptying, flowTables } from '../../support/empty.ts';
import type { Session } from '../sql/support.ts';
import { openGround } from '../sql/support.ts';

const ground = opened(openGround);

beforeEach(async () => {
  await ground.reset();
  await ground.sql(emptying(flowTables));
});

interface Waits {
  readonly id: string;
  readonly token: string;
  /** The flow in which the job waits for the signal `ok`, as JSON. */
  readonly flow: string;
  readonly node: Session;
  readonly other: Session;
}

/** A running job, with a session of its node and one more. */
async function withJob(work: (waits: Waits) => Promise<void>): Promise<void> {
  const lease = await ground.running(await ground.node());
  const flow = JSON.stringify({
    id: signalFlowId(lease.id, 'ok'),
    name: 'hello: ok',
    steps: [{ name: 'ok', kind: 'signal' }],
  });
  const [node, other] = [await ground.session(), await ground.session()];
  try {
    await work({ ...lease, flow, node, other });
  } finally {
    await node.end();
    await other.end();
  }
}

test('a signal and the suspension of its job wait for each other in one order', () =>
  withJob(async ({ id, token, flow, node, other }) => {
    // the suspension has made the flow, and has not locked the job yet
    await node.sql('begin');
    await node.sql(
      'select pgqueue.make_wait(q.id, q.created, $2::jsonb) from pgqueue.queue q where q.id = $1',
      [id, flow],
    );
    const signal = await ground.waiting(other, `select pgqueue.signal_job('${id}', 'ok', '"ada"') as said`);
    const suspended = await node.sql('select pgqueue.suspend_job($1, $2, $3::jsonb, $4::jsonb) as said', [
      id,
      token,
      '{}',
      flow,
    ]);
    await node.sql('commit');
    expect([suspended, await signal.answer]).toEqual([[{ said: 'suspended' }], [{ said: 'signalled' }]]);
  }));

test('a suspension sees that its wait has ended, also while a signal makes it', () =>
  withJob(async ({ id, token, flow, node, other }) => {
    await other.sql('begin');
    await other.sql('select pgqueue.signal_job($1, $2)', [id, 'ok']);
    const { leader, epoch } = ground.leader();
    await other.sql('select pgqueue.advance_flows($1, $2, $3)', [
      leader,
      epoch,
      { from: 0, max: 10, walk: null },
    ]);
    const suspended = await ground.waiting(
      node,
      `select pgqueue.suspend_job('${id}', '${token}', '{}', '${flow}') as said`,
    );
    await other.sql('commit');
    expect(await suspended.answer).toEqual([{ said: 'ended' }]);
  }));

test('no job waits for a flow of another job, or of the application', () =>
  withJob(async ({ id, token, flow, node }) => {
    const other = await ground.running(await ground.node('other'));
    const suspend = (lease: Lease, into: string): Promise<unknown> =>
      node.sql('select pgqueue.suspend_job($1, $2, $3::jsonb, $4::jsonb) as said', [
        lease.id,
        lease.token,
        '{}',
        into,
      ]);
    const refused = { code: '42501', message: expect.stringMatching(/^flow .* was not made for job /) };
    const own = JSON.stringify({ id: randomUUID(), name: 'own', steps: [{ name: 'go', kind: 'signal' }] });
    await node.sql('select * from pgqueue.start_flow($1::jsonb)', [own]);
    await expect(suspend(other, own)).rejects.toMatchObject(refused);
    expect(await suspend({ id, token }, flow)).toEqual([{ said: 'suspended' }]);
    await expect(suspend(other, flow)).rejects.toMatchObject(refused);
    const waits = await ground.sql('select name, waiter from pgqueue.flow order by name');
    expect(waits).toEqual([
      { name: 'hello: ok', waiter: id },
      { name: 'own', waiter: null },
    ]);
    // nor does a signal reach a flow that somebody else has made in its place
    const taken = flow.replace(signalFlowId(id, 'ok'), signalFlowId(id, 'later'));
    expect(await suspend(other, taken)).toEqual([{ said: 'suspended' }]);
    await expect(node.sql(`select pgqueue.signal_job('${id}', 'later')`)).rejects.toMatchObject(refused);
  }));

test('a signal of a job that is unknown leaves nothing behind', async () => {
  expect(await ground.one('select pgqueue.signal_job($1, $2)', [randomUUID(), 'ok'])).toBe('unknown');
  // no handler can wait for it
  await expect(
    ground.one('select pgqueue.signal_job($1, $2)', [randomUUID(), 'n'.repeat(101)]),
  ).rejects.toThrow('1 to 100 characters');
  expect(await ground.sql('select from pgqueue.flow')).toEqual([]);
});
