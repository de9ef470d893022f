import { openDatabase } from '@pgqueue/postgres/internal';
import { createProducer } from '@pgqueue/producer';
import { expect, test } from 'vitest';
import type { Actor } from '../../support/actors.ts';
import { startActor } from '../../support/actors.ts';
import { harmless, poison } from '../../support/actors/tasks.ts';
import type { Said } from '../../support/actors/messages.ts';
import { createTestDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';

/** Starts a worker again whenever it has ended, as systemd or Kubernetes would. */
function supervise(url: string): {
  readonly heard: () => readonly Said[];
  readonly lives: () => number;
  readonly stop: () => Promise<void>;
} {
  const actors: Actor[] = [];
  let stopping = false;
  const start = async (): Promise<void> => {
    const file = new URL('../../support/actors/poisoned.ts', import.meta.url);
    const life = actors.length + 1;
    // all that it runs in its first life still runs when it is struck; longer than a busy machine keeps a heartbeat waiting
    const options = { holds: life === 1, heartbeatMs: 200, lostAfterMs: 3_000 };
    const actor = await startActor('worker', { url, name: `life ${life}`, file, options });
    actors.push(actor);
    actor.process.once('exit', () => {
      if (!stopping) starting = start();
    });
  };
  let starting = start();
  return {
    heard: () => actors.flatMap(({ heard }) => heard),
    lives: () => actors.length,
    stop: async () => {
      stopping = true;
      await starting;
      await Promise.all(actors.map((actor) => actor.stop()));
    },
  };
}

test('a job that kills its process is dead after three crashes; what ran beside it is done, charged with one', async () => {
  const database = await createTestDatabase();
  const { query, close } = openDatabase({ connectionString: database.url, connectionsMax: 2 });
  const producer = createProducer({ connectionString: database.url });
  const scheduler = await startActor('scheduler', { url: database.url, name: 'scheduler' });
  const node = supervise(database.url);
  const rows = (text: string): Promise<readonly Record<string, unknown>[]> => query(text, []);
  try {
    await until('a first life', () => node.lives() === 1);
    // in the end some are longer than it takes to strike again
    await producer.enqueueMany([2_000, 2_000, 1_500, 1_500, 1_000].map((ms) => harmless.job({ ms })));
    await until('neighbours', () => node.heard().filter(({ type }) => type === 'began').length === 5);
    const { id } = await producer.enqueue(poison, {});
    await until('the first crash', () => node.lives() === 2);
    await producer.enqueueMany([100, 200, 300].map((ms) => harmless.job({ ms })));
    const ended = async (): Promise<boolean> =>
      (await rows('select from pgqueue.queue')).length === 0 &&
      (await rows('select from pgqueue.history')).length === 8;
    await until('all to end', ended);

    expect(await rows('select id, reason, crashes, tries from pgqueue.dead_letter')).toEqual([
      { id, reason: 'crash_limit', crashes: 3, tries: 0 },
    ]);
    const neighbours = await rows('select outcome, crashes, tries from pgqueue.history order by created, id');
    expect(neighbours).toEqual(
      [1, 1, 1, 1, 1, 0, 0, 0].map((crashes) => ({ outcome: 'done', crashes, tries: 0 })),
    );
    expect(node.heard().filter(({ type }) => type === 'poisoned')).toHaveLength(3);
    await until('the last life', () => node.lives() === 4);
  } finally {
    await node.stop();
    await scheduler.stop();
    await producer.close();
    await close();
    await database.drop();
  }
});
