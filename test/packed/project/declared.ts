// Exports of a user who has pgqueue alone: TypeScript writes their inferred types into declarations, by names that pgqueue must export.
import * as pgqueue from 'pgqueue';
import { z } from 'zod';

const payload = z.object({ n: z.number() });
export const task = pgqueue.defineTask({ name: 'task', payload, result: payload });
export const after = pgqueue.defineTask({ name: 'after', payload, needs: { task, note: payload } });
export const job = task.job({ n: 1 });
export const one = pgqueue.implement(task, ({ n }) => ({ n }));
export const several = pgqueue.implementBatch(task, (jobs) => jobs.map(({ payload: { n } }) => ({ n })));
export const inProcess = pgqueue.isolated(new URL('heavy.js', import.meta.url));
export const program = pgqueue.executable('true');

export const signal = pgqueue.signal(payload);
export const timer = pgqueue.timer('1h');
export const flow = pgqueue
  .flow('flow')
  .step('job', job)
  .step('signal', signal, { needs: ['job'] });

export const queue = pgqueue.createQueue({ connectionString: '', tasks: [one] });
export const parts = { ...queue };
export const within = queue.with({ query: () => Promise.resolve([]) });
export const operator = { ...queue.operator };
export const { ...jobs } = queue.operator.jobs;
export const { ...dead } = queue.operator.dead;
export const { ...flows } = queue.operator.flows;
export const { ...installation } = queue.operator.installation;
export const { ...sharedLimits } = queue.operator.limits;
export const signals = pgqueue.stopOnSignals(queue);
export const observe = pgqueue.logObserver(console);

export const ends = [
  pgqueue.cancelled(),
  pgqueue.fanOut([]),
  pgqueue.giveUp(new Error('no')),
  pgqueue.retryAfter('1h'),
  pgqueue.snooze('1h'),
] as const;

export const gate = pgqueue.gate({ name: 'gate', admits: () => true });
export const window = pgqueue.maintenanceWindow({
  name: 'night',
  cron: '0 2 * * *',
  durationMs: 1_000,
  mode: 'closed_during',
});
export const shares = pgqueue.fairShare();
export const deadlines = pgqueue.earliestDeadline({ deadline: () => null });
export const scores = pgqueue.byScore({ name: 'scores', score: () => 0 });
export const policy = pgqueue.policy({ name: 'policy', gates: [gate, window], order: shares });

export const codec = pgqueue.encrypted({ keys: [], plain: 'accept' });
export const blind = pgqueue.blind('key', 'secret');
