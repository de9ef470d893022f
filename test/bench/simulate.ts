// How fast the policy lab is: a million jobs of 100 keys in 100 slots, in virtual time.
//   npm run bench:simulate [-- --jobs 1000000 --load 0.9]
// Exit 1 where a million jobs take more than 30 s of CPU time under the default policy: it runs on one core, which may be shared.
import { parseArgs } from 'node:util';
import { defaultPolicy, fairShare, policy, turns } from '@pgqueue/core';
import type { Policy } from '@pgqueue/core';
import { simulate, synthetic } from '@pgqueue/lab';

const limitMs = 30_000;
const { values } = parseArgs({
  options: { jobs: { type: 'string', default: '1000000' }, load: { type: 'string' } },
});
const jobs = Number(values.jobs);
const slots = 100;
const medianMs = 80;
const sigma = 0.7;
const meanMs = medianMs * Math.exp(sigma ** 2 / 2);

const policies: readonly Policy[] = [
  defaultPolicy(),
  policy({ name: 'worker time', order: fairShare({ charge: 'time' }) }),
  policy({ name: 'turns', order: turns() }),
];
// below what the slots can do, and above: then all but the first are planned from a backlog
const loads = values.load === undefined ? [0.9, 1.3] : [Number(values.load)];

let slow = false;
for (const tried of policies) {
  for (const load of loads) {
    const workload = synthetic({
      jobs,
      perSecond: (load * slots * 1_000) / meanMs,
      keys: 100,
      skew: 0.8,
      duration: { medianMs, sigma },
    });
    const startedAt = performance.now();
    const cpu = process.cpuUsage();
    const result = simulate({ policy: tried, workload, fleet: [{ slots: 10, count: 10 }] });
    const tookMs = performance.now() - startedAt;
    const cpuMs = (process.cpuUsage(cpu).user + process.cpuUsage(cpu).system) / 1_000;
    const perMillion = (cpuMs * 1_000_000) / jobs;
    if (tried === policies[0] && perMillion > limitMs) slow = true;
    const { plans, waits, utilisation } = result;
    console.log(
      `${tried.name}, load ${load}: ${jobs} jobs in ${(tookMs / 1_000).toFixed(1)} s (CPU ${(cpuMs / 1_000).toFixed(1)} s, ${Math.round((jobs * 1_000) / tookMs)} jobs/s, ${plans.made} plans, ${((tookMs * 1_000) / plans.made).toFixed(0)} µs each), ` +
        `${result.jobs.done} done, wait p50 ${waits.p50Ms?.toFixed(0)} p99 ${waits.p99Ms?.toFixed(0)} ms, ${(100 * utilisation).toFixed(1)} % of the slots used, Jain ${result.jain?.toFixed(3) ?? '-'}, ` +
        `${Math.round(process.memoryUsage().rss / 1_048_576)} MiB`,
    );
  }
}
process.exitCode = slow ? 1 : 0;
