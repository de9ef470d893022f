// Checks that every acknowledged job comes out once and has the effects that it must have, and that nothing
// comes out that was never asked for.
import type { EventOf } from './history.ts';
import type { JobTrace, Traces } from './traces.ts';

export interface Total {
  readonly acknowledged: number;
  /** Number of jobs by their final state. */
  readonly ended: Readonly<Record<string, number>>;
  /** Acknowledged jobs that are nowhere to be found. */
  readonly lost: readonly string[];
  /** Jobs still waiting or running at the end. */
  readonly open: readonly string[];
  /** Jobs found though nobody asked for them, or only in a transaction that was rolled back. */
  readonly unexpected: readonly string[];
  /** Jobs with more than one terminal row. */
  readonly twice: readonly string[];
  /** Jobs with an accepted end, but another one in the database. */
  readonly contradicted: readonly string[];
  /** Effects through `ctx.transaction` that happened twice, or not at all, or for a job that is not done. */
  readonly effects: readonly string[];
  readonly witnessed: number;
}

export function totalOf({ jobs, facts }: Traces): Total {
  const witnessTasks = new Set(facts.witnessTasks);
  const found: { [List in 'lost' | 'open' | 'unexpected' | 'twice' | 'contradicted' | 'effects']: string[] } =
    {
      lost: [],
      open: [],
      unexpected: [],
      twice: [],
      contradicted: [],
      effects: [],
    };
  const ended: Record<string, number> = {};
  let acknowledged = 0;
  let witnessed = 0;
  for (const job of jobs.values()) {
    const { id, enqueues, finals } = job;
    const acked = enqueues.includes('ok');
    if (acked) acknowledged += 1;
    if (acked && finals.length === 0) found.lost.push(id);
    if (finals.length > 1) found.twice.push(`${id}: ${finals.map(({ state }) => state).join(', ')}`);
    if (finals.length > 0 && enqueues.every((phase) => phase === 'fail')) {
      found.unexpected.push(`${id}: ${enqueues.length === 0 ? 'never enqueued' : 'rolled back'}`);
    }
    for (const final of finals) {
      ended[final.state] = (ended[final.state] ?? 0) + 1;
      if (final.state === 'open') found.open.push(id);
      const effect = witnessTasks.has(final.task) ? wrongEffect(final) : undefined;
      if (witnessTasks.has(final.task) && effect === undefined) witnessed += final.witnesses;
      if (effect !== undefined) found.effects.push(effect);
    }
    const contradiction = contradictionOf(job);
    if (contradiction !== undefined) found.contradicted.push(contradiction);
  }
  return { acknowledged, ended, witnessed, ...found };
}

function wrongEffect({ id, state, witnesses }: EventOf<'final'>): string | undefined {
  const wanted = state === 'done' ? 1 : 0;
  return witnesses === wanted ? undefined : `${id}: ${state}, and its effect ${witnesses} times`;
}

function contradictionOf({ id, leases, finals }: JobTrace): string | undefined {
  const [final] = finals;
  if (final === undefined) return undefined;
  for (const { token, settles } of leases.values()) {
    for (const { verdict } of settles) {
      if (verdict !== 'done' && verdict !== 'dead' && verdict !== 'cancelled') continue;
      if (verdict !== final.state || token !== final.token)
        return `${id}: ${verdict} under ${token} was accepted; it is ${final.state} under ${String(final.token)}`;
    }
  }
  return undefined;
}
