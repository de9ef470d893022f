import type { Stage } from '../stage.ts';

/** A step as `start_flow` takes it. */
export interface SeedStep {
  readonly name: string;
  readonly kind?: 'jobs' | 'signal' | 'timer';
  readonly needs?: readonly (readonly [step: number, condition?: 'done' | 'ended' | 'failed'])[];
  readonly wants?: 'all' | 'any';
  readonly delay_ms?: number;
  readonly jobs?: readonly object[];
}

/** Starts a flow; resolves to its id. */
export async function startFlow(
  { sql }: Pick<Stage, 'sql'>,
  name: string,
  steps: readonly SeedStep[],
  more: object = {},
): Promise<string> {
  const [row] = await sql('select flow_id from pgqueue.start_flow($1::jsonb)', [
    JSON.stringify({ name, steps, ...more }),
  ]);
  return String(row?.['flow_id']);
}

export function jobsOf(count: number, job: object = {}): readonly object[] {
  return Array.from({ length: count }, (_, n) => ({
    task: 'hello',
    key: 'acme',
    payload: { tenant: `tenant-${n}` },
    ...job,
  }));
}

/** A flow of every kind of step: pages, a sum of them, somebody's word, a timer, and what waits for either. */
export function siteSteps(pages: readonly object[]): readonly SeedStep[] {
  return [
    { name: 'pages', jobs: pages },
    { name: 'sum', needs: [[0, 'ended']], jobs: jobsOf(1) },
    { name: 'ok', kind: 'signal', needs: [[1, 'done']] },
    { name: 'late', kind: 'timer', delay_ms: 86_400_000, needs: [[1, 'done']] },
    { name: 'alarm', needs: [[0, 'failed']], jobs: jobsOf(1) },
    {
      name: 'publish',
      needs: [
        [2, 'done'],
        [3, 'done'],
      ],
      wants: 'any',
      jobs: jobsOf(2),
    },
  ];
}

/** Two thousand steps: twenty chains of ninety-nine, begun by one and ended by one. */
export function manySteps(): readonly SeedStep[] {
  const [chains, length] = [20, 100];
  const steps: SeedStep[] = [{ name: 'begin', kind: 'signal' }];
  for (let at = 0; at < length - 1; at += 1) {
    for (let chain = 0; chain < chains; chain += 1) {
      const before = at === 0 ? 0 : (at - 1) * chains + chain + 1;
      steps.push({ name: `chain ${chain} part ${at}`, needs: [[before, 'done']], jobs: jobsOf(1) });
    }
  }
  while (steps.length < 1_999)
    steps.push({ name: `side ${steps.length}`, needs: [[0, 'done']], jobs: jobsOf(1) });
  const last = Array.from(
    { length: chains },
    (_, chain) => [(length - 2) * chains + chain + 1, 'done'] as const,
  );
  return [...steps, { name: 'end', needs: last, jobs: jobsOf(1) }];
}
