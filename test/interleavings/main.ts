// npm run test:interleavings -- --every 1 --from 0
import { parseArgs } from 'node:util';
import { migrate } from '@pgqueue/postgres';
import { startServer } from '@pgqueue/postgres/testing';
import { interleave } from './all.ts';

const { values } = parseArgs({
  options: { every: { type: 'string', default: '1' }, from: { type: 'string', default: '0' } },
});
const server = await startServer();
try {
  await migrate({ connectionString: server.adminUrl });
  let done = 0;
  const { violations, ...counts } = await interleave(server.adminUrl, {
    every: Number(values.every),
    from: Number(values.from),
    observe: (ran) => {
      done += 1;
      if (done % 5_000 === 0) console.log(`${done} cases`);
      for (const violation of ran.violations) console.log(violation);
    },
  });
  console.log(
    `interleavings on PostgreSQL ${server.major}: ${counts.pairs} pairs, ${counts.cases} cases, ${counts.waited} with a wait, ${violations.length} violations`,
  );
  process.exitCode = violations.length === 0 ? 0 : 1;
} finally {
  await server.stop();
}
