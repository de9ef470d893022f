// npm run test:fuzz -- --minutes 10 --seed 1: hostile SQL of producers and workers, while good jobs go on.
import { parseArgs } from 'node:util';
import { migrate } from '@pgqueue/postgres';
import { startServer } from '@pgqueue/postgres/testing';
import { fuzz } from './run.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '5' },
    seed: { type: 'string', default: '1' },
    rounds: { type: 'string', default: '1000000' },
  },
});
const slowerMax = 2;
const server = await startServer();
try {
  await migrate({ connectionString: server.adminUrl });
  const seed = Number(values.seed);
  const { violations, attacks, answers, rounds, slower } = await fuzz({
    url: server.adminUrl,
    seed,
    rounds: Number(values.rounds),
    attacks: 300,
    good: 1_000,
    untilMs: Number(values.minutes) * 60_000,
    told: (line) => console.log(line),
  });
  for (const violation of violations) console.log(`violation: ${violation}`);
  console.log(
    Object.entries(answers)
      .toSorted(([, a], [, b]) => b - a)
      .map(([answer, count]) => `${answer} ${count}`)
      .join(', '),
  );
  console.log(
    `fuzz on PostgreSQL ${server.major}, seed ${seed}: ${rounds} rounds, ${attacks} hostile statements, good jobs took ${slower.toFixed(1)} times as long as beside connections that compute (median), ${violations.length} violations`,
  );
  process.exitCode = violations.length === 0 && slower <= slowerMax ? 0 : 1;
} finally {
  await server.stop();
}
