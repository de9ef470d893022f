import type { Chart, Draw } from './charts.ts';
import { loadDraw } from './charts.ts';
import type { InstallationsSimulation } from '../installations/result.ts';
import type { Comparison } from '../simulation/compare.ts';
import { installationsTables } from './installations-tables.ts';
import { chartsOf, comparisonCharts } from './result-charts.ts';
import type { Simulation } from '../simulation/result.ts';
import type { Table } from './table.ts';
import { comparisonTables, namesOf, tablesOf } from './tables.ts';
import { printable, sayName } from './format.ts';

/** Texts in the head of a page. */
export interface PageOptions {
  /** Default: the names of the policies. */
  readonly title?: string;
  /** One line about the workload. */
  readonly subtitle?: string;
}

/**
 * Renders a report as one HTML page with tables and charts, in light and dark colours; of installations with tables alone. The page has no
 * scripts and loads nothing.
 * @throws {PgQueueError} `configuration` if echarts, which is optional, is not installed
 */
export async function htmlReport(
  result: Simulation | Comparison | InstallationsSimulation,
  options: PageOptions = {},
): Promise<string> {
  if ('results' in result) {
    const counts = result.results.map(({ installations }) => installations).join(', ');
    const title = options.title ?? `${sayName(result.policy)} in ${counts} installations`;
    return page({ ...options, title }, installationsTables(result), []);
  }
  const draw = await loadDraw();
  if ('base' in result) {
    const { base, other } = namesOf(result);
    const title = options.title ?? `${other} against ${base}`;
    return page({ ...options, title }, comparisonTables(result), comparisonCharts(result).map(figure(draw)));
  }
  const title = options.title ?? sayName(result.policy);
  return page({ ...options, title }, tablesOf(result), chartsOf(result).map(figure(draw)));
}

function figure(draw: Draw): (chart: Chart) => string {
  return (chart) => {
    const note = chart.note === undefined ? '' : `<p>${escapeHtml(chart.note)}</p>`;
    return `<figure role="img" aria-label="${escapeHtml(chart.title)}"><figcaption>${escapeHtml(chart.title)}</figcaption>${note}${draw(clean(chart))}</figure>`;
  };
}

/** Sanitizes the names of series, which come from users. */
function clean(chart: Chart): Chart {
  const { series } = chart.option as { readonly series?: readonly { readonly name: string }[] };
  if (series === undefined) return chart;
  return {
    ...chart,
    option: { ...chart.option, series: series.map((one) => ({ ...one, name: sayName(one.name) })) },
  };
}

function page(
  { title, subtitle = '' }: PageOptions & { readonly title: string },
  tables: readonly Table[],
  figures: readonly string[],
): string {
  const [overview, ...details] = tables;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)}</title>
<style>${style}</style>
</head>
<body>
<header><h1>${escapeHtml(title)}</h1>${subtitle === '' ? '' : `<p>${escapeHtml(subtitle)}</p>`}</header>
<main>
${overview === undefined ? '' : tableHtml(overview)}
<div class="charts">
${figures.join('\n')}
</div>
${details.map(tableHtml).join('\n')}
</main>
<footer>Made by the policy lab of pgqueue.</footer>
</body>
</html>
`;
}

function tableHtml({ title, heads, rows, note }: Table): string {
  const head = heads.map((cell) => `<th scope="col">${escapeHtml(cell)}</th>`).join('');
  const body = rows
    .map(([first = '', ...cells]) => {
      const others = cells.map((cell) => `<td>${escapeHtml(cell)}</td>`).join('');
      return `<tr><th scope="row">${escapeHtml(first)}</th>${others}</tr>`;
    })
    .join('\n');
  const remark = note === undefined ? '' : `<p>${escapeHtml(note)}</p>`;
  return `<section><h2>${escapeHtml(title)}</h2>${remark}<div class="wide"><table><thead><tr>${head}</tr></thead><tbody>\n${body}\n</tbody></table></div></section>`;
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Escapes text for HTML content and for attribute values in double quotes. The result has one line. */
export function escapeHtml(text: string): string {
  return printable(text).replaceAll(/[&<>"']/g, (sign) => entities[sign] ?? '');
}

// eight colours that are distinct for most kinds of colour blindness (Okabe and Ito, 2008), lighter on a dark
// page
const style = `
:root { --page: #fff; --ink: #1c2024; --soft: #60646c; --line: #d9dbe0;
  --c1: #0072b2; --c2: #d55e00; --c3: #009e73; --c4: #cc79a7; --c5: #e69f00; --c6: #56b4e9; --c7: #8a7a00; --c8: #7f8794; }
@media (prefers-color-scheme: dark) { :root { --page: #15171a; --ink: #e6e8eb; --soft: #9ba1a6; --line: #363b41;
  --c1: #4fa8dd; --c2: #f0874a; --c3: #3cc79b; --c4: #e2a3c7; --c5: #f0b94a; --c6: #86cdf5; --c7: #cfc04a; --c8: #a5adb8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 80rem; background: var(--page); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; } h2, figcaption { font-size: 1.1rem; font-weight: 600; margin: 2rem 0 .25rem; }
p, footer { color: var(--soft); margin: .25rem 0 .5rem; max-width: 60rem; overflow-wrap: anywhere; } footer { margin-top: 2rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 34rem), 1fr)); gap: 0 2rem; }
figure { margin: 0; min-width: 0; } figure svg { display: block; height: auto; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .75rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child { text-align: left; padding-left: 0; font-weight: 500; } thead th { color: var(--soft); font-weight: 500; }
`;
