// npm run test:interleavings -- --every 1 --from 0 --world batches --major 15
import { parseArgs } from 'node:util';
import { migrate } from '@pgqueue/postgres';
import { startServer } from '@pgqueue/postgres/testing';
import { interleave } from './all.ts';

const { values } = parseArgs({
  options: {
    every: { type: 'string', default: '1' },
    from: { type: 'string', default: '0' },
    world: { type: 'string' },
    major: { type: 'string', default: '18' },
  },
});
const server = await startServer({ major: values.major === '15' ? 15 : 18 });
try {
  await migrate({ connectionString: server.adminUrl });
  let [done, wrong] = [0, 0];
  for (const world of ['jobs', 'batches'] as const) {
    if (values.world !== undefined && values.world !== world) continue;
    const { violations, ...counts } = await interleave(server.adminUrl, {
      world,
      every: Number(values.every),
      from: Number(values.from),
      observe: (ran) => {
        done += 1;
        if (done % 5_000 === 0) console.log(`${done} cases`);
        for (const violation of ran.violations) console.log(violation);
      },
    });
    wrong += violations.length;
    console.log(
      `interleavings of ${world} on PostgreSQL ${server.major}: ${counts.pairs} pairs, ${counts.cases} cases, ${counts.waited} with a wait, ${violations.length} violations`,
    );
  }
  process.exitCode = wrong === 0 ? 0 : 1;
} finally {
  await server.stop();
}
