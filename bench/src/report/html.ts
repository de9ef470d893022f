import type { Bar } from './charts.ts';
import { bars, lines } from './charts.ts';
import type { Report, Run } from './report.ts';
import type { Section } from './summary.ts';
import { metricOf, sectionsOf, sizeText, spreadText } from './summary.ts';
import { isMet, targetRow, targetsOf } from './targets.ts';
import { longWorks, works } from '../works/index.ts';

/**
 * Formats a report as one HTML page with tables and charts, for light and dark mode. The page has no scripts
 * and loads nothing.
 */
export function htmlOf(report: Report): string {
  const { machine, postgres, redis, startedAt, commands, commit } = report;
  const sections = sectionsOf(report);
  const peers = [...new Set(report.contestants.map(({ peer }) => peer))];
  const facts: readonly (readonly [string, string])[] = [
    ...commands.map((command) => ['Command', command] as const),
    ['Begun', startedAt],
    ...(commit === undefined ? [] : [['Commit', commit] as const]),
    ['Machine', `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB, ${machine.system}`],
    ['Node', machine.node],
    ['PostgreSQL', `${postgres.version}; ${settingsText(postgres.settings)}`],
    ...(redis === undefined ? [] : [['Redis', `${redis.version}; ${redis.settings}`] as const]),
    ...report.contestants.map(
      ({ peer, setting, version, says }) =>
        [`${[peer, version].join(' ').trim()}, ${setting}`, says] as const,
    ),
  ];
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>pgqueue beside its peers</title>
<style>${style}</style>
</head>
<body>
<h1>pgqueue beside its peers</h1>
<p>Repetitions in turn, each in a database of its own. Medians; in brackets the lowest and the highest. In charts, a dot is a repetition.</p>
<table class="facts">${facts.map(([name, value]) => `<tr><th scope="row">${escapeHtml(name)}</th><td>${escapeHtml(value)}</td></tr>`).join('')}</table>
${targetsHtml(sections)}
${sections.map((section) => sectionHtml(section, report.runs, peers)).join('\n')}
</body>
</html>
`;
}

export function settingsText(settings: Readonly<Record<string, string>>): string {
  return Object.entries(settings)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ');
}

function targetsHtml(sections: readonly Section[]): string {
  const rows = targetsOf(sections).map((target) => {
    const [what, ...cells] = targetRow(target).map(escapeHtml);
    const met = isMet(target) ? '' : ' class="faults"';
    return `<tr${met}><th scope="row">${what}</th>${cells.map((cell) => `<td>${cell}</td>`).join('')}</tr>`;
  });
  if (rows.length === 0) return '';
  const heads = ['', 'measured', 'target', 'met'].map((head) => `<th scope="col">${head}</th>`).join('');
  return `<section><h2>Targets</h2><table><thead><tr>${heads}</tr></thead><tbody>${rows.join('\n')}</tbody></table></section>`;
}

function sectionHtml(section: Section, runs: readonly Run[], peers: readonly string[]): string {
  const says = [...works, ...longWorks].find(({ name }) => name === section.work)?.says ?? '';
  const heads = section.metrics
    .map((name) => `<th scope="col">${escapeHtml(metricOf(name).title)}</th>`)
    .join('');
  const rows = section.rows.map(({ peer, setting, metrics }) => {
    const cells = section.metrics
      .map((name) => `<td>${escapeHtml(spreadText(metrics[name], metricOf(name)))}</td>`)
      .join('');
    return `<tr><th scope="row">${escapeHtml(`${peer}, ${setting}`)}</th>${cells}</tr>`;
  });
  const faults = section.rows.flatMap((row) =>
    row.faults.map((fault) => `<li>${escapeHtml(`${row.peer}, ${row.setting}, ${fault}`)}</li>`),
  );
  return `<section><h2>${escapeHtml(`${section.work}: ${section.case}`)}</h2><p>${escapeHtml(`${says} ${sizeText(section)}`)}</p>
<div class="wide"><table><thead><tr><th></th>${heads}</tr></thead><tbody>${rows.join('\n')}</tbody></table></div>
${faults.length === 0 ? '' : `<ul class="faults">${faults.join('')}</ul>`}
<figure role="img" aria-label="${escapeHtml(`${section.work}: ${section.case}`)}">${charts(section, runs, peers).join('\n')}</figure></section>`;
}

function charts(section: Section, runs: readonly Run[], peers: readonly string[]): readonly string[] {
  const [first] = section.metrics;
  if (first === undefined) return [];
  const mine = runs.filter((run) => run.work === section.work && run.case === section.case);
  const shown: readonly Bar[] = section.rows.map(({ peer, setting, metrics }) => ({
    name: `${peer}, ${setting}`,
    value: metrics[first]?.median ?? NaN,
    all: mine
      .filter((run) => run.peer === peer && run.setting === setting)
      .flatMap((run) => run.metrics[first] ?? []),
    colour: peers.indexOf(peer),
  }));
  const names = [...new Set(mine.flatMap(({ series = {} }) => Object.keys(series)))];
  const overTime = names.map((name) => {
    const all = section.rows.flatMap(({ peer, setting }, at) => {
      const run = mine.find((one) => one.peer === peer && one.setting === setting);
      const values = run?.series?.[name];
      return values === undefined ? [] : [{ name: `${peer}, ${setting}`, values, colour: at }];
    });
    return `<figcaption>${escapeHtml(name)}</figcaption>${lines(all)}`;
  });
  return [`<figcaption>${escapeHtml(metricOf(first).title)}</figcaption>${bars(shown)}`, ...overTime];
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (sign) => entities[sign] ?? '');
}

// colours that remain distinct for most kinds of colour blindness (Okabe and Ito, 2008)
const style = `
:root { --page: #fff; --ink: #1c2024; --soft: #60646c; --line: #d9dbe0;
  --c1: #0072b2; --c2: #7f8794; --c3: #d55e00; --c4: #009e73; --c5: #cc79a7; --c6: #e69f00; --c7: #56b4e9; --c8: #8a7a00; --c9: #6a3d9a; --c10: #b15928; }
@media (prefers-color-scheme: dark) { :root { --page: #15171a; --ink: #e6e8eb; --soft: #9ba1a6; --line: #363b41;
  --c1: #4fa8dd; --c2: #a5adb8; --c3: #f0874a; --c4: #3cc79b; --c5: #e2a3c7; --c6: #f0b94a; --c7: #86cdf5; --c8: #cfc04a; --c9: #b39ddb; --c10: #d7a27a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 80rem; background: var(--page); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2.5rem 0 .25rem; } p { color: var(--soft); max-width: 60rem; margin: .25rem 0 .75rem; }
figure { margin: 1rem 0 0; max-width: 50rem; } figcaption { font-weight: 600; margin-top: 1rem; } figure svg { display: block; height: auto; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .75rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child { text-align: left; padding-left: 0; font-weight: 500; } thead th { color: var(--soft); font-weight: 500; }
.facts td { text-align: left; white-space: normal; overflow-wrap: anywhere; } .faults { color: var(--c3); }
`;
