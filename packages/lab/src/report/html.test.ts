import { fifo, policy, turns } from '@pgqueue/core';
import { describe, expect, test } from 'vitest';
import { compare } from '../simulation/compare.ts';
import { htmlReport } from './html.ts';
import type { Simulation } from '../simulation/result.ts';
import { comparisonCharts } from './result-charts.ts';
import { simulate } from '../simulation/simulate.ts';
import { merge, synthetic } from '../workloads/synthetic.ts';
import { comparisonTables } from './tables.ts';
import type { Arrival } from '../workloads/arrival.ts';

const hostile = [
  '</svg></figure><script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  "' onload='alert(1)",
  '<![CDATA[',
  '-->',
  '&lt;b&gt;',
  '{{constructor.constructor("alert(1)")()}}',
  '\u202Egpj.exe\u0000\u001b[2J\ud800',
  '</style><style>*{display:none}',
  'var(--c1) #010203',
];

const odd: readonly Arrival[] = hostile.flatMap((name, at) =>
  [0, 1, 2].map((n) => ({ atMs: n, durationMs: 20 + at, queue: name.slice(0, 100), key: name, task: name })),
);

/** Returns every tag of the page, as an HTML parser would find them. Throws if tags are not nested. */
function tagsOf(html: string): readonly string[] {
  const open: string[] = [];
  const seen: string[] = [];
  const empty = new Set(['meta', '!doctype', 'br']);
  const body = html.replaceAll(/<style>[^<]*<\/style>/g, '');
  for (const [, slash, name = '', rest = ''] of body.matchAll(
    /<(\/?)([!a-zA-Z][\w:-]*)((?:[^<>"]|"[^"<]*")*)>/g,
  )) {
    const tag = name.toLowerCase();
    if (slash === '/') {
      const last = open.pop();
      if (last !== tag) throw new Error(`</${tag}> where <${String(last)}> is open`);
      continue;
    }
    seen.push(tag);
    if (/\son\w+\s*=/i.test(rest)) throw new Error(`<${tag}${rest}> would run code`);
    if (!empty.has(tag) && !rest.endsWith('/')) open.push(tag);
  }
  const signs = body.replaceAll(/<(?:\/?)(?:[!a-zA-Z][\w:-]*)(?:(?:[^<>"]|"[^"<]*")*)>/g, '');
  if (/[<>]/.test(signs)) throw new Error(`a bare < or > is left: ${/.{0,40}[<>].{0,40}/.exec(signs)?.[0]}`);
  if (open.length > 0) throw new Error(`left open: ${open.join(' ')}`);
  return seen;
}

const allowed = new Set(
  `!doctype html head meta title style body header h1 h2 p main div section table thead tbody tr th td figure figcaption footer
   svg path text rect g defs clippath line polyline polygon circle lineargradient stop use`.split(/\s+/),
);

describe('the page', () => {
  test('shows hostile names as they are, and nothing of them as code', async () => {
    const name = hostile.join(' ');
    const tried = { ...policy({ order: turns() }), name }; // policy() would refuse this name
    const html = await htmlReport(simulate({ policy: tried, workload: odd }), { subtitle: name });
    const tags = tagsOf(html);
    expect(tags.filter((tag) => !allowed.has(tag))).toEqual([]);
    expect(html).toContain('&lt;/svg&gt;&lt;/figure&gt;&lt;script&gt;');
    for (const sign of ['\u0000', '\u001b', '\u202e']) expect(html).not.toContain(sign);
    expect(html.isWellFormed()).toBe(true);
    expect(html).toContain('>var(--c1) #010203<');
  });

  test('brings everything with it, and follows the colours of the reader', async () => {
    const html = await htmlReport(simulate({ policy: policy({ order: fifo() }), workload: odd }));
    expect(html).not.toMatch(/https?:\/\/(?!www\.w3\.org)/);
    expect(html).not.toMatch(/<(?:script|link|iframe|img)\b|@import|url\((?!#)/i);
    expect(html).toContain(`content="default-src 'none'; style-src 'unsafe-inline'"`);
    expect(html).toContain('@media (prefers-color-scheme: dark)');
    const svgs = html.replaceAll(/<defs[\s\S]*?<\/defs>/g, '').match(/<svg[\s\S]*?<\/svg>/g) ?? [];
    expect(svgs.length).toBeGreaterThanOrEqual(5);
    // a fixed colour would be invisible on the light or on the dark page
    expect(
      svgs
        .join('')
        .match(/(?:fill|stroke)="(?:#|rgb)[^"]*"/g)
        ?.filter((one) => !one.includes('rgb(0,0,0)')) ?? [],
    ).toEqual([]);
    for (const [, variable = ''] of html.matchAll(/var\((--\w+)\)/g)) expect(html).toContain(`${variable}:`);
  });

  test('sets two policies side by side, even of the same name, and escapes both', async () => {
    const both = compare({
      policy: policy({ name: '<b>one</b>', order: turns() }),
      against: policy({ name: '<b>one</b>', order: fifo() }),
      workload: merge(odd, synthetic({ jobs: 50, perSecond: 1_000, duration: 10, keys: 3 })),
    });
    const html = await htmlReport(both);
    tagsOf(html);
    expect(html).toContain('<h1>&lt;b&gt;one&lt;/b&gt; against &lt;b&gt;one&lt;/b&gt; (against)</h1>');
  });

  test('says in a comparison what share of its entitlement each key got under each policy, as the table does', () => {
    // under FIFO the first key has all slots, and the second gets nothing of its entitlement
    const both = compare({
      policy: policy({ order: turns() }),
      against: policy({ order: fifo() }),
      workload: ['first', 'second'].flatMap((key) =>
        Array.from({ length: 2_000 }, (): Arrival => ({ atMs: 0, durationMs: 10, key })),
      ),
      fleet: [{ slots: 8 }],
      untilMs: 2_000,
      tickMs: 0,
    });
    const ratios = ({ lanes }: Simulation): readonly number[] => lanes.map(({ served }) => served.ratio ?? 0);
    const chart = comparisonCharts(both).find(
      ({ title }) => title === 'Share of their entitlement that keys got',
    );
    expect(chart?.option['series']).toMatchObject([
      { name: 'fifo', data: ratios(both.base) },
      { name: 'turns', data: ratios(both.other) },
    ]);
    expect(ratios(both.base)).toEqual([2, 0]);
    for (const ratio of ratios(both.other)) expect(ratio).toBeCloseTo(1, 1);
    expect(both.differences.find(({ measure }) => measure === 'missed deadlines')).toMatchObject({
      base: null,
      other: null,
      change: null,
    });
    const [table] = comparisonTables(both);
    expect(table?.rows.find(([measure]) => measure === 'missed deadlines')).toEqual([
      'missed deadlines',
      '-',
      '-',
      '-',
    ]);
  });

  test('can be made of nothing', async () => {
    const nothing = simulate({ policy: policy({ order: fifo() }), workload: [] });
    expect(tagsOf(await htmlReport(nothing))).toContain('table');
  });
});

test('the check of tags finds what it looks for', () => {
  expect(() => tagsOf('<p>a < b</p>')).toThrow('bare');
  expect(() => tagsOf('<p><b></p>')).toThrow('is open');
  expect(() => tagsOf('<p onclick="x()"></p>')).toThrow('run code');
});
