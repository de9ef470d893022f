import type { HotTable, QueueStatus, Status, StoredReport } from '@pgqueue/postgres';
import type { Command } from 'commander';
import { withOperator } from '../context.ts';
import { acrossInstallations, isAcross, withRouter } from '../installations.ts';
import { age, oneLine, percent, plural } from '../output/format.ts';
import type { Output } from '../output/output.ts';
import { facts } from '../output/table.ts';
import { about, flowsText } from '../output/top.ts';
import { examples } from './help.ts';
import { routerStatusText } from '../output/installations-text.ts';
import { shadowText } from '../output/shadow-text.ts';

export function addStatus(program: Command): void {
  const command = acrossInstallations(program.command('status'))
    .summary('show depth, ages, leader, nodes and warnings')
    .description('Shows the queues, the leader, the nodes, and everything that needs attention.')
    .action((_options: unknown, self: Command) => {
      if (isAcross(self)) return allStatus(self);
      return withOperator(self, async (operator, output) => {
        const status = await operator.status();
        output.answer(status, () => statusText(status, output));
      });
    });
  examples(command, [
    ['status', 'the present state'],
    ['status --json', 'the same for a program'],
    ['status --installations all.json', 'several installations, a line each'],
  ]);
}

/** Shows all installations of a list. Exit code 1: one of them did not answer. */
function allStatus(command: Command): Promise<void> {
  return withRouter(command, async (router, output) => {
    const status = await router.operator.status();
    output.answer(status, () => routerStatusText(status));
    return status.installations.every((one) => one.status !== null) ? 0 : 1;
  });
}

function statusText(status: Status, output: Output): string {
  const { leader, nodes, totals, oldestSnapshot } = status;
  const shadow = status.scheduler === null ? undefined : shadowText(status.scheduler, output);
  const ofFlows = flowsText(status.flows);
  const overview = facts([
    ['schema', `${status.schema} (version ${status.schemaVersion})`],
    [
      'leader',
      leader.leader === null
        ? 'none'
        : `${leader.leader}, epoch ${leader.epoch}, lease ends in ${age(leader.expiresInMs)}`,
    ],
    [
      'nodes',
      `${nodes.alive} alive, ${nodes.draining} draining, ${nodes.lost} lost, ${nodes.left} left; ${nodes.slotsInUse} of ${nodes.slots} slots in use`,
    ],
    ['wanted slots', wantedText(status.wanted)],
    ...schedulerFacts(status.scheduler),
    ...(shadow === undefined ? [] : [['shadow', shadow.line] as const]),
    ...(ofFlows === undefined ? [] : [['flows', ofFlows] as const]),
    ['done', `${totals.donePerSecond.toFixed(1)}/s over the last 5 minutes`],
    ['oldest snapshot', snapshotText(oldestSnapshot)],
    ...status.tables.map((table) => [table.table, tableText(table)] as const),
  ]);
  const queues = output.table(
    [
      'queue',
      'delayed',
      'pending',
      'ready',
      'running',
      'dead',
      'oldest',
      'claim age',
      'retry rate',
      'done 5m',
      'held',
    ],
    status.queues.map((queue) => [
      queue.paused ? `${queue.queue} (paused)` : queue.queue,
      about(queue.delayed, queue.exact),
      about(queue.pending, queue.exact),
      queue.ready,
      queue.running,
      about(queue.dead, queue.exact),
      age(queue.oldestMs),
      age(queue.claimAgeMs),
      percent(queue.retryRate),
      queue.done5m,
      heldText(queue.held),
    ]),
  );
  const warnings = status.warnings.map(({ message }) => `WARN  ${oneLine(message)}`);
  const tables = [status.queues.length === 0 ? 'no queues yet' : queues, ...(shadow?.tables ?? [])];
  return [overview, '', tables.join('\n\n'), ...warnings].join('\n');
}

function snapshotText(snapshot: Status['oldestSnapshot']): string {
  // a younger one may be this command's own
  if (snapshot === null || (snapshot.ageMs !== null && snapshot.ageMs < 1_000)) return 'none';
  const { pid, application, ageMs } = snapshot;
  const session = `session ${pid}, ${application || 'no application name'}`;
  return ageMs === null
    ? `age hidden from this user, who needs pg_read_all_stats: ${session}`
    : `${age(ageMs)}: ${session}`;
}

function tableText({ liveRows, deadRows, bytes, bloatBytes, vacuumedMs }: HotTable): string {
  const bloat = bloatBytes === null ? 'bloat not known' : `${mebibytes(bloatBytes)} bloat`;
  const vacuumed = vacuumedMs === null ? 'never vacuumed' : `vacuumed ${age(vacuumedMs)} ago`;
  return `${mebibytes(bytes)}, ${plural(liveRows, 'row')}, ${deadRows} dead, ${bloat}, ${vacuumed}`;
}

function mebibytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}

function schedulerFacts(report: StoredReport | null): readonly (readonly [string, string])[] {
  if (report === null) return [];
  const { ticks, forecast } = report;
  const duration = (ms: number | null): string => (ms === null ? '-' : `${ms.toFixed(1)} ms`);
  return [
    ['policy', `${report.policy}, report of ${age(report.ageMs)} ago${report.stale ? ' (stale)' : ''}`],
    [
      'ticks',
      `${ticks.count}, p50 ${duration(ticks.p50Ms)}, p99 ${duration(ticks.p99Ms)}, last batch ${ticks.lastBatch}, ${ticks.dispatched} dispatched`,
    ],
    ['lanes', `${report.lanes} known, ${plural(report.inFlight, 'job')} in flight`],
    ...(forecast === null || Object.keys(forecast).length === 0
      ? []
      : [['forecast', countsText(forecast)] as const]),
  ];
}

function wantedText(wanted: Status['wanted']): string {
  if (wanted === null) return 'not known: no leader has reported them lately';
  return Object.keys(wanted).length === 0 ? '0' : countsText(wanted);
}

function heldText(held: QueueStatus['held']): string | null {
  return held === null || Object.keys(held).length === 0 ? null : countsText(held);
}

function countsText(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .map(([name, count]) => `${name} ${count}`)
    .join(', ');
}
