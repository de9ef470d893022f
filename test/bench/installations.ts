// npm run bench:installations -- [--jobs 300000] [--rounds 3]
// Measures the processor time of a job over 1, 2 and 4 installations on one machine, each with a server and a scheduler of
// its own, all with one worker: it tells whether a job costs more where there are more of them. Then the same over two of
// three, before and after the third one's server has stopped.
import { parseArgs } from 'node:util';
import type { Cost } from './installations-open.ts';
import { openInstallations } from './installations-open.ts';

const { values } = parseArgs({
  options: { jobs: { type: 'string', default: '300000' }, rounds: { type: 'string', default: '3' } },
});
const [jobs, rounds] = [Number(values.jobs), Number(values.rounds)];
/** Jobs for each installation before the measured ones: each process compiles, and fills its caches. */
const warmUp = 50_000;
const measured = new Map<string, Cost[]>();

function note(name: string, cost: Cost): void {
  console.log(name, cost);
  measured.set(name, [...(measured.get(name) ?? []), cost]);
}

for (let round = 0; round < rounds; round += 1) {
  for (const count of [1, 2, 4]) {
    const opened = await openInstallations(count);
    try {
      await opened.drain(warmUp * count);
      note(`${count}`, await opened.drain(jobs));
    } finally {
      await opened.close();
    }
  }
  const opened = await openInstallations(3);
  try {
    await opened.drain(warmUp * 3);
    note('2 of 3', await opened.drain(jobs, [0, 1]));
    await opened.stopServer(2);
    note('2 of 3, the third down', await opened.drain(jobs, [0, 1]));
  } finally {
    await opened.close();
  }
}

const middle = (all: readonly number[]): number => all.toSorted((a, b) => a - b)[all.length >> 1] ?? NaN;
const costOf = (name: string): number =>
  middle((measured.get(name) ?? []).map(({ node, servers }) => node + servers));
console.table(
  [...measured].map(([name, own]) => ({
    installations: name,
    'jobs/s': Math.round(middle(own.map(({ jobsPerSecond }) => jobsPerSecond))),
    'Node µs/job': Math.round(middle(own.map(({ node }) => node)) * 10) / 10,
    'servers µs/job': Math.round(middle(own.map(({ servers }) => servers)) * 10) / 10,
    'relative cost':
      Math.round((costOf(name) / costOf(name.startsWith('2 of') ? '2 of 3' : '1')) * 100) / 100,
  })),
);
