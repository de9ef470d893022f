// Histories written by hand, for tests of the checker.
import type { Verdict, ViolationName } from './check.ts';
import { check } from './check.ts';
import type { HistoryEntry, HistoryEvent, RunFacts, SettleOutcome, SettleVerdict } from './history.ts';

const facts: RunFacts = { seed: 7, lostAfterMs: 1_500, epochMs: 0, witnessTasks: ['effect'] };

/** Writes a history by hand; each call is answered 1 ms after it was sent. */
export class Script {
  readonly events: HistoryEvent[];
  #ops = 0;

  constructor(more: Partial<RunFacts> = {}) {
    this.events = [{ at: 0, by: 'bench', type: 'run', facts: { ...facts, ...more } }];
  }

  add(at: number, entry: HistoryEntry): this {
    this.events.push({ at, by: 'bench', ...entry });
    return this;
  }

  enqueue(at: number, id: string, phase: 'ok' | 'fail' | 'unknown' = 'ok'): this {
    const op = `e${(this.#ops += 1)}`;
    this.add(at, { type: 'enqueue', phase: 'invoke', op, ids: [id] });
    return this.add(at + 1, { type: 'enqueue', phase, op });
  }

  /** A claim that begins its handler as soon as it is answered. */
  claim(at: number, id: string, { token, node = 'n1', leaseMs = 2_000, answeredAt = at + 1 }: Claim): this {
    const op = `c${(this.#ops += 1)}`;
    return this.add(at, { type: 'claim', phase: 'invoke', op, node, token })
      .add(answeredAt, { type: 'claim', phase: 'ok', op, leases: [[id, leaseMs]] })
      .add(answeredAt + 1, { type: 'start', id, token, node });
  }

  /** `verdict`: null is refused as stale, 'lost' got no answer. */
  settle(at: number, id: string, { token, outcome = 'done', verdict = outcome }: Settle): this {
    const op = `s${(this.#ops += 1)}`;
    this.add(at, { type: 'settle', phase: 'invoke', op, leases: [[id, token, outcome]] });
    if (verdict === 'lost') return this.add(at + 1, { type: 'settle', phase: 'unknown', op });
    const verdicts: [string, SettleVerdict][] = verdict === null ? [] : [[id, verdict]];
    return this.add(at + 1, { type: 'settle', phase: 'ok', op, verdicts });
  }

  final(
    id: string,
    state: 'done' | 'dead' | 'open',
    more: { token?: string; task?: string; witnesses?: number } = {},
  ): this {
    const { token = 't1', task = 'plain', witnesses = 0 } = more;
    return this.add(90_000, { type: 'final', id, task, state, token, witnesses });
  }

  verdict(): Verdict {
    return check(this.events);
  }

  violated(): readonly ViolationName[] {
    return Object.entries(this.verdict().violations).flatMap(([name, list]) =>
      list.length > 0 ? [name as ViolationName] : [],
    );
  }
}

interface Claim {
  readonly token: string;
  readonly node?: string;
  readonly leaseMs?: number;
  readonly answeredAt?: number;
}

interface Settle {
  readonly token: string;
  readonly outcome?: SettleOutcome;
  readonly verdict?: SettleVerdict | 'lost' | null;
}

/** One job that was enqueued, claimed, begun and done. */
export function good(): Script {
  return new Script()
    .enqueue(10, 'a')
    .claim(20, 'a', { token: 't1' })
    .settle(40, 'a', { token: 't1' })
    .final('a', 'done');
}
