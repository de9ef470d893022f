import type { Ran, Try } from './lane.ts';
import { openLane } from './lane.ts';
import { scenarios } from './scenarios.ts';
import type { Fate, Moment } from './statement-proxy.ts';

export interface KillPointsOptions {
  /** Databases; as many points are tried at a time. */
  readonly urls: readonly string[];
  /** Every so many of them, from `from` on. */
  readonly every: number;
  readonly from: number;
  /** In processes of their own. */
  readonly alone: boolean;
  readonly observe?: (one: Try, ran: Ran) => void;
}

export interface KillPointsReport {
  /** Points that were reached, by scenario. */
  readonly points: Readonly<Record<string, number>>;
  readonly problems: readonly string[];
}

const moments: readonly Moment[] = ['before', 'sent', 'after'];
const fates: readonly Fate[] = ['death', 'cut'];
/** No scenario has more statements. */
const statementsMax = 500;

/** Every scenario dies (or loses a connection) at its first statement, at its second, and so on, until there is none. */
export async function killPoints(options: KillPointsOptions): Promise<KillPointsReport> {
  const { urls, every, from, alone, observe } = options;
  const points: Record<string, number> = {};
  const problems: string[] = [];
  const work = tries(options);
  const over = new Set<string>();
  const lanes = urls.map(async (url) => {
    const lane = await openLane(url);
    try {
      for (const { index, one } of work) {
        const { scenario, point } = one;
        if (over.has(scenario.name) || index % every !== from % every) continue;
        const ran = await lane
          .run(one)
          .catch((error: unknown): Ran => ({ reached: true, statement: '', problems: [String(error)] }));
        observe?.(one, ran);
        if (!ran.reached) over.add(scenario.name);
        else points[scenario.name] = (points[scenario.name] ?? 0) + 1;
        const title = `${scenario.name} ${point.n} ${point.moment} ${point.fate}${alone ? ' alone' : ''} (${shortOf(ran)})`;
        problems.push(...ran.problems.map((problem) => `${title}: ${problem}`));
      }
    } finally {
      await lane.close();
    }
  });
  await Promise.all(lanes);
  return { points, problems };
}

/** All points in order, given out to whoever asks next. */
function* tries({
  alone,
}: KillPointsOptions): Generator<{ readonly index: number; readonly one: Try }, void> {
  let index = 0;
  for (const scenario of scenarios) {
    for (let n = 1; n <= statementsMax; n += 1) {
      for (const moment of moments) {
        for (const fate of fates) {
          yield { index, one: { scenario, alone, point: { n, moment, fate } } };
          index += 1;
        }
      }
    }
  }
}

function shortOf({ statement }: Ran): string {
  return statement.replaceAll(/\s+/g, ' ').trim().slice(0, 70);
}
