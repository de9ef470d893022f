// A producer in TypeScript, whose jobs a worker in Python runs (worker.py): the payload and the result have types here.
import { defineTask } from '@pgqueue/core';
import { createProducer } from '@pgqueue/producer';
import { z } from 'zod';

/** A task that is implemented elsewhere: it has no handler here. */
const embed = defineTask({
  name: 'embed',
  payload: z.object({ texts: z.array(z.string()).min(1) }),
  result: z.object({ vectors: z.array(z.array(z.number())) }),
});

const producer = createProducer({ connectionString: process.env['DATABASE_URL'] ?? '' });
const job = await producer.enqueue(embed, { texts: ['a cab', 'a bac', 'zzz'] });
const { vectors } = await producer.result(job, { timeout: '60s' });
const [one = [], two = [], three = []] = vectors;
const likeness = (a: readonly number[], b: readonly number[]): number =>
  a.reduce((sum, value, index) => sum + value * (b[index] ?? 0), 0);
console.log(`a cab, a bac: ${likeness(one, two).toFixed(2)}; a cab, zzz: ${likeness(one, three).toFixed(2)}`);
await producer.close();
