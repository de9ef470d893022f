// The rules of flows, as a pure function of outcomes: written from the design, and apart from the SQL.
export type Condition = 'done' | 'ended' | 'failed';
export type Outcome = 'done' | 'failed' | 'cancelled' | 'skipped';
export type StepKind = 'jobs' | 'signal' | 'timer';
/** End of a job of a flow. */
export type JobEnd = 'done' | 'dead' | 'cancelled' | 'expired' | 'erased';

export interface Step {
  readonly kind: StepKind;
  readonly wants: 'all' | 'any';
  /** Each need: the index of an earlier step, and the condition. */
  readonly needs: readonly (readonly [number, Condition])[];
}

export function isMet(condition: Condition, outcome: Outcome): boolean {
  if (condition === 'ended') return true;
  return condition === 'done' ? outcome === 'done' : outcome === 'failed' || outcome === 'cancelled';
}

/**
 * Returns what the outcomes so far mean for a step. An outcome is undefined while its step has not ended.
 */
export function decide(
  { needs, wants }: Step,
  outcomes: readonly (Outcome | undefined)[],
): 'opens' | 'skips' | 'waits' {
  const met = needs.map(([needed, condition]) => {
    const outcome = outcomes[needed];
    return outcome === undefined ? undefined : isMet(condition, outcome);
  });
  const opens = wants === 'all' || needs.length === 0 ? met.every((one) => one === true) : met.includes(true);
  const skips = wants === 'all' ? met.includes(false) : met.every((one) => one === false);
  if (opens) return 'opens';
  return skips ? 'skips' : 'waits';
}

/** Outcome of an open step of jobs. `stopped`: its flow was cancelled while it was open. */
export function outcomeOf(ends: readonly JobEnd[], stopped: boolean): Outcome {
  if (ends.includes('dead')) return 'failed';
  return stopped || ends.some((end) => end !== 'done') ? 'cancelled' : 'done';
}

/** Indexes of the steps that need a step, with their conditions. */
export function dependentsOf(
  steps: readonly Step[],
  step: number,
): readonly { readonly step: number; readonly condition: Condition }[] {
  return steps.flatMap(({ needs }, index) =>
    needs.flatMap(([needed, condition]) => (needed === step ? [{ step: index, condition }] : [])),
  );
}

/** Indexes of a step and of those that wait for it, through any others. */
export function behind(steps: readonly Step[], from: number): ReadonlySet<number> {
  const found = new Set([from]);
  for (const [index, { needs }] of steps.entries())
    if (needs.some(([needed]) => found.has(needed))) found.add(index);
  return found;
}

/**
 * True if a flow with these outcomes has failed: a step failed or was cancelled, and nobody takes that with
 * `ended`, or somebody takes it otherwise. A step that was skipped takes nothing.
 */
export function hasFailed(steps: readonly Step[], outcomes: readonly (Outcome | undefined)[]): boolean {
  return steps.some((_step, index) => {
    const outcome = outcomes[index];
    if (outcome !== 'failed' && outcome !== 'cancelled') return false;
    const dependents = dependentsOf(steps, index);
    return (
      dependents.every(({ step }) => outcomes[step] === 'skipped') ||
      dependents.some(({ condition }) => condition !== 'ended')
    );
  });
}

/**
 * True if every step that needs this signal or timer is decided without it, or is one that nobody waits for
 * either: so it ends as skipped. `opened`: steps that had opened before a retry, by other outcomes.
 */
export function isSuperfluous(
  steps: readonly Step[],
  step: number,
  known: {
    readonly outcomes: readonly (Outcome | undefined)[];
    readonly opened: ReadonlySet<number>;
  },
): boolean {
  const without = known.outcomes.map((outcome, index) => (index === step ? undefined : outcome));
  const dependents = dependentsOf(steps, step);
  return (
    steps[step]?.kind !== 'jobs' &&
    dependents.length > 0 &&
    dependents.every(({ step: dependent }) => {
      const own = steps[dependent];
      if (own === undefined) return false;
      if (known.opened.has(dependent) || decide(own, without) !== 'waits') return true;
      return known.outcomes[dependent] === 'skipped' && isSuperfluous(steps, dependent, known);
    })
  );
}
