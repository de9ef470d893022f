import type { RouterStatus } from '@pgqueue/router';
import { age, brief, oneLine } from './format.ts';
import { limitsText } from './limits-text.ts';
import type { Output } from './output.ts';
import { about } from './top.ts';

const messageMax = 70;

/** Formats the status of several installations: a line each, their sum, shared limits, and warnings. */
export function routerStatusText(
  { installations, totals, nodes, limits }: RouterStatus,
  output: Output,
): string {
  const heads = ['installation', 'pending', 'ready', 'running', 'dead', 'oldest', 'done/s', 'slots'];
  const lines = installations.map(({ installation, state, status }) => {
    const name = state === 'draining' ? `${installation} (drains)` : installation;
    return status === null
      ? [name, 'down', ...heads.slice(2).map(() => null)]
      : [name, ...cells(status.totals, status.nodes)];
  });
  const sum = installations.length > 1 ? [['all', ...cells(totals, nodes)]] : [];
  const down = installations.flatMap(({ error }) =>
    error === null ? [] : [`DOWN  ${brief(oneLine(error), messageMax)}`],
  );
  const warnings = installations.flatMap(({ installation, status }) =>
    (status?.warnings ?? []).map(({ message }) => `WARN  ${installation}: ${oneLine(message)}`),
  );
  const shared = limits.length === 0 ? [] : ['', limitsText(limits, output)];
  return [output.table(heads, [...lines, ...sum]), ...shared, ...down, ...warnings].join('\n');
}

function cells(totals: RouterStatus['totals'], nodes: RouterStatus['nodes']): readonly (string | number)[] {
  return [
    about(totals.pending + totals.delayed, totals.exact),
    totals.ready,
    totals.running,
    about(totals.dead, totals.exact),
    age(totals.oldestMs),
    totals.donePerSecond.toFixed(1),
    `${nodes.slotsInUse}/${nodes.slots}`,
  ];
}
