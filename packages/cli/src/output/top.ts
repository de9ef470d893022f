import type { Top } from '@pgqueue/postgres';
import type { Column } from './fit.ts';
import { cutTo, fitted } from './fit.ts';
import { age, oneLine, percent } from './format.ts';
import type { Screen } from './screen.ts';
import type { Cell } from './table.ts';

interface Section {
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly Cell[])[];
}

/** Rows of each section that are shown however small the screen is. */
const rowsMin = 2;

/**
 * Formats the view to fit the screen: the head, then sections of headings and rows, each after an empty line.
 */
export function topLines(top: Top, { columns, rows }: Screen): readonly string[] {
  const width = Math.max(20, columns);
  const head = headOf(top).map((line) => cutTo(oneLine(line), width));
  const sections = [queuesOf(top), keysOf(top), slowestOf(top), nodesOf(top)].filter(
    (section) => section.rows.length > 0,
  );
  const heights = shared(
    sections.map((section) => section.rows.length),
    // each section has an empty line and headings
    rows - head.length - 2 * sections.length,
  );
  const parts = sections.flatMap((section, index) => {
    const shown = section.rows.slice(0, heights[index]);
    return ['', ...fitted(section.columns, shown, width)];
  });
  const all = [...head, ...parts];
  return all.slice(0, Math.max(1, rows));
}

/** Distributes the available rows to the sections; rows that short sections do not need go to longer ones. */
function shared(wanted: readonly number[], available: number): readonly number[] {
  const given = wanted.map((rows) => Math.min(rows, rowsMin));
  let left = available - given.reduce((sum, rows) => sum + rows, 0);
  for (let open = true; open && left > 0;) {
    open = false;
    for (const [index, rows] of wanted.entries()) {
      if (left <= 0 || (given[index] ?? 0) >= rows) continue;
      given[index] = (given[index] ?? 0) + 1;
      left -= 1;
      open = true;
    }
  }
  return given;
}

/**
 * Describes flows: `12 open, the oldest 3m 2s old; in 5m: 7 done, 1 failed`. Undefined: none is open, and none has
 * ended lately.
 */
export function flowsText(flows: Top['flows']): string | undefined {
  const { open, more, oldestMs, done5m, failed5m, cancelled5m, more5m } = flows;
  const ended = [
    [done5m, 'done'],
    [failed5m, 'failed'],
    [cancelled5m, 'cancelled'],
  ] as const;
  const told = ended.filter(([count]) => count > 0).map(([count, state]) => `${count} ${state}`);
  if (open === 0 && told.length === 0) return undefined;
  return [
    open === 0 ? 'none open' : `${more ? 'over ' : ''}${open} open, the oldest ${age(oldestMs)} old`,
    ...(told.length === 0 ? [] : [`in 5m${more5m ? ', of the newest 10000' : ''}: ${told.join(', ')}`]),
  ].join('; ');
}

function headOf({ leader, nodes, totals, flows, scheduler, warnings }: Top): readonly string[] {
  const leads = leader.leader === null ? 'nobody leads' : `${leader.leader} leads (epoch ${leader.epoch})`;
  const ticks =
    scheduler === null || scheduler.stale || scheduler.ticks.p99Ms === null
      ? []
      : [`ticks p99 ${scheduler.ticks.p99Ms.toFixed(1)} ms`];
  const late = nodes.overdue > 0 ? `, ${nodes.overdue} overdue` : '';
  const count = (jobs: number): string => about(jobs, totals.exact);
  const { delayed, pending, ready, running, dead } = totals;
  const ofFlows = flowsText(flows);
  const [first] = warnings;
  const others = warnings.length > 1 ? ` (1 of ${warnings.length})` : '';
  return [
    [leads, `nodes ${nodes.alive} alive${late}`, `slots ${nodes.slotsInUse}/${nodes.slots}`, ...ticks].join(
      '  ',
    ),
    [
      `pending ${count(pending)}  ready ${ready}  running ${running}  delayed ${count(delayed)}  dead ${count(dead)}`,
      `${totals.donePerSecond.toFixed(1)} done/s  retried ${percent(totals.retryRate)}`,
    ].join('  '),
    ...(ofFlows === undefined ? [] : [`flows ${ofFlows}`]),
    ...(first === undefined ? [] : [`WARN${others} ${first.message}`]),
  ];
}

/** Marks estimates with `~`. */
export function about(
  jobs: number,
  exact: boolean,
  shown: (jobs: number) => number | string = (all) => all,
): string {
  return `${exact || jobs < 10 ? '' : '~'}${shown(jobs)}`;
}

function queuesOf({ queues }: Top): Section {
  const busy = queues.toSorted(
    (a, b) =>
      b.pending + b.ready + b.running - (a.pending + a.ready + a.running) || (a.queue < b.queue ? -1 : 1),
  );
  return {
    columns: [
      { head: 'queue', cut: true },
      { head: 'pending', right: true },
      { head: 'ready', right: true },
      { head: 'run', right: true },
      { head: 'delayed', right: true },
      { head: 'dead', right: true },
      { head: 'oldest', right: true },
      { head: 'claim', right: true },
      { head: 'retry', right: true },
      { head: 'held by', cut: true },
    ],
    rows: busy.map((queue) => [
      queue.queue,
      about(queue.pending, queue.exact),
      queue.ready,
      queue.running,
      about(queue.delayed, queue.exact),
      about(queue.dead, queue.exact),
      age(queue.oldestMs),
      age(queue.claimAgeMs),
      percent(queue.retryRate),
      heldText(queue),
    ]),
  };
}

function heldText({ paused, held }: Top['queues'][number]): string | null {
  const reasons = Object.entries(held ?? {}).map(([reason, jobs]) => `${reason} ${jobs}`);
  if (paused && held?.['paused_queue'] === undefined) reasons.unshift('paused');
  return reasons.join(', ') || null;
}

function keysOf({ keys, totals }: Top): Section {
  const named = keys.filter(({ key }) => key !== null && key !== '');
  return {
    columns: [
      { head: 'key', cut: true },
      { head: 'queue', cut: true },
      { head: 'pending', right: true },
      { head: 'ready', right: true },
      { head: 'run', right: true },
      { head: 'of all that run', right: true },
    ],
    rows: named.map(({ key, queue, pending, ready, running, exact }) => [
      key,
      queue,
      about(pending, exact),
      ready,
      running,
      percent(totals.running === 0 ? null : running / totals.running),
    ]),
  };
}

function slowestOf({ slowest }: Top): Section {
  return {
    columns: [
      { head: 'running', cut: true },
      { head: 'key', cut: true },
      { head: 'job', cut: true },
      { head: 'node', cut: true },
      { head: 'for', right: true },
      { head: 'lease', right: true },
      { head: 'try', right: true },
    ],
    rows: slowest.map((job) => [
      job.cancelled ? `ending ${job.task}` : job.task,
      job.key,
      job.id,
      job.node,
      age(job.runningMs),
      age(job.leaseEndsInMs),
      job.tries + job.crashes + 1,
    ]),
  };
}

function nodesOf({ everyNode }: Top): Section {
  return {
    columns: [
      { head: 'node', cut: true },
      { head: 'state' },
      { head: 'pool', cut: true },
      { head: 'slots', right: true },
      { head: 'heartbeat', right: true },
      { head: 'up', right: true },
    ],
    rows: everyNode
      .filter(({ state }) => state !== 'left')
      .map((node) => [
        node.id,
        node.overdue ? `${node.state}, overdue` : node.state,
        node.pool,
        `${node.slotsInUse}/${node.slots}`,
        age(node.heartbeatAgeMs),
        age(node.ageMs),
      ]),
  };
}
