import type { HomeLoad, HottestKey, InstallationsSimulation, RoutedResult } from '../installations/result.ts';
import { sayMs, sayName, sayNumber, sayShare } from './format.ts';
import type { Table } from './table.ts';

/** Most installations of which the load is listed. */
const homesMax = 32;

/** Returns the tables of a workload in several numbers of installations. */
export function installationsTables({ results, slots }: InstallationsSimulation): readonly Table[] {
  const several = results.filter(({ installations }) => installations > 1);
  return [overview(results, slots), ...several.map((result) => loads(result, slots))];
}

function overview(results: readonly RoutedResult[], slots: InstallationsSimulation['slots']): Table {
  const hasFlows = results.some(({ makespans }) => makespans.count > 0);
  const row = (measure: string, of: (result: RoutedResult) => string): readonly string[] => [
    measure,
    ...results.map(of),
  ];
  const ms = (measure: string, of: (result: RoutedResult) => number | null): readonly string[] =>
    row(measure, (result) => sayMs(of(result)));
  return {
    title: 'Installations',
    heads: ['measure', ...results.map(({ installations }) => String(installations))],
    rows: [
      row('jobs done', ({ jobs }) => `${jobs.done} of ${jobs.arrived}`),
      ms('wait mean', ({ waits }) => waits.meanMs),
      ms('wait p50', ({ waits }) => waits.p50Ms),
      ms('wait p95', ({ waits }) => waits.p95Ms),
      ms('wait p99', ({ waits }) => waits.p99Ms),
      ms('longest wait', ({ waits }) => waits.maxMs),
      ms('worst p95 of a key', ({ worstP95Ms }) => worstP95Ms),
      row("Jain's index", ({ jain }) => (jain === null ? '-' : jain.toFixed(3))),
      ms('time to the end', ({ spanMs }) => spanMs),
      row('slots', (result) => sayNumber(result.slots)),
      row('utilisation', ({ utilisation }) => sayShare(utilisation)),
      row('utilisation while jobs wait', ({ busyWhileWaiting }) => sayShare(busyWhileWaiting)),
      row('busiest installation', ({ homes }) => sayShare(Math.max(0, ...homes.map(({ share }) => share)))),
      row('hottest key', ({ hottest }) => sayHottest(hottest)),
      ...(hasFlows
        ? [
            ms('makespan p50', ({ makespans }) => makespans.p50Ms),
            ms('makespan p99', ({ makespans }) => makespans.p99Ms),
          ]
        : []),
    ],
    note: `${
      slots === 'shared'
        ? 'All installations share the slots of all nodes: one that becomes free goes to their ready jobs in turn.'
        : 'Each installation has its part of the slots: those of one can be idle while jobs wait in another.'
    } Busiest installation, hottest key: by their part of all slot time.`,
  };
}

function loads({ installations, homes }: RoutedResult, slots: InstallationsSimulation['slots']): Table {
  const shown = homes.slice(0, homesMax);
  return {
    title: `Load of ${installations}`,
    heads: [
      'installation',
      ...(slots === 'shared' ? [] : ['slots']),
      'keys',
      'jobs',
      'slot time',
      'used',
      'wait p50',
      'p99',
      'most waiting',
      'hottest key',
    ],
    rows: shown.map((home) => loadRow(home, slots)),
    note: `${
      homes.length > shown.length ? `The first ${shown.length} of ${homes.length}. ` : ''
    }Slot time: of all installations. Used: of ${slots === 'shared' ? 'all slots' : 'its slots'}. Hottest key: of the installation.`,
  };
}

function loadRow(home: HomeLoad, slots: InstallationsSimulation['slots']): readonly string[] {
  return [
    String(home.installation),
    ...(slots === 'shared' ? [] : [String(home.slots)]),
    String(home.keys),
    String(home.jobs.arrived),
    sayShare(home.share),
    sayShare(home.utilisation),
    sayMs(home.waits.p50Ms),
    sayMs(home.waits.p99Ms),
    String(home.waitingMax),
    sayHottest(home.hottest),
  ];
}

function sayHottest(hottest: HottestKey | null): string {
  return hottest === null ? '-' : `${sayName(hottest.key, 30)} (${sayShare(hottest.share)})`;
}
