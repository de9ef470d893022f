// Scenarios of the seeded bugs of flows: each is good without its bug.
import { lead } from '@pgqueue/postgres/internal';
import type { FlowScenario } from './flow-stage.ts';
import { stageFlow } from './flow-stage.ts';

/** All jobs end; the leader is called once. */
export const counted: FlowScenario = async (ground) => {
  const stage = await stageFlow(ground, 2);
  for (const lease of await stage.begin(stage.node)) await stage.end(lease, 'done');
  await stage.advance();
  return stage.judge();
};

/** A leader that was replaced calls once more. */
export const takenOver: FlowScenario = async (ground) => {
  const stage = await stageFlow(ground, 1);
  for (const lease of await stage.begin(stage.node)) await stage.end(lease, 'done');
  const old = ground.leader();
  await ground.sql(`update pgqueue.scheduler_lease set leader = null, expires = '-infinity'`);
  const { epoch } = await lead(ground.database, 'newest', 600_000);
  const refused = await stage.advance(old).then(
    () => false,
    (error: { readonly code?: string }) => error.code === 'PQ002',
  );
  await stage.advance({ leader: 'newest', epoch });
  return [...(refused ? [] : ['moved by an old leader']), ...(await stage.judge())];
};

/** An attempt adds a job after its node was reset, while another attempt runs. */
export const added: FlowScenario = async (ground) => {
  const stage = await stageFlow(ground, 1);
  const [stale] = await stage.begin(stage.node);
  await ground.sql('select pgqueue.reset_node($1)', [stage.node.id]);
  const [newest] = await stage.begin(await ground.node('n2'));
  if (stale === undefined || newest === undefined) throw new Error('nobody could claim the job');
  await stage.add(stale);
  await stage.end(newest, 'done');
  await stage.advance();
  return stage.judge();
};

/** A job fails; the walk looks at the flow, as it does if a tally is missing. */
export const crashedBetween: FlowScenario = async (ground) => {
  const stage = await stageFlow(ground, 2);
  const [first, second] = await stage.begin(stage.node);
  if (first === undefined || second === undefined) throw new Error('nobody could claim the jobs');
  await stage.end(first, 'done');
  await stage.end(second, 'dead');
  await ground.sql(stage.walkText());
  return stage.judge();
};

/** The last job fails while the leader, which has read the tallies, waits for a lock; then the leader is called again. */
export const lastFails: FlowScenario = async (ground) => {
  const stage = await stageFlow(ground, 2);
  const [first, second] = await stage.begin(stage.node);
  if (first === undefined || second === undefined) throw new Error('nobody could claim the jobs');
  await stage.end(first, 'done');
  const [holder, leader] = [await ground.session(), await ground.session()];
  try {
    await holder.sql('begin');
    await holder.sql('select from pgqueue.flow_step where flow = $1 and step = 0 for update', [stage.flow]);
    const { answer } = await ground.waiting(leader, stage.walkText());
    await stage.end(second, 'dead');
    await holder.sql('commit');
    await answer;
    await stage.advance();
  } finally {
    await Promise.all([holder.end(), leader.end()]);
  }
  return stage.judge();
};
