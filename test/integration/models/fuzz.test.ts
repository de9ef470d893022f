// Hostile SQL of producers and workers hurts nothing but itself; for longer: npm run test:fuzz.
import { expect, test } from 'vitest';
import { fuzz } from '../../fuzz/run.ts';
import { createTestDatabase } from '../../support/database.ts';

test('good jobs go on beside hostile statements', async () => {
  const own = await createTestDatabase();
  try {
    const { violations, answers } = await fuzz({ url: own.url, seed: 1, rounds: 1, attacks: 120, good: 200 });
    expect(violations).toEqual([]);
    expect(Object.keys(answers)).toEqual(expect.arrayContaining(['accepted', '23514', '22023']));
  } finally {
    await own.drop();
  }
});
