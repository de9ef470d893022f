// Checks of a flow that has ended, from the record and the tables. Pure.
import type { Conduct } from './conduct.ts';
import type { JobEnd, Outcome } from './graph.ts';
import { behind, decide, hasFailed, isSuperfluous, outcomeOf } from './graph.ts';
import type { FlowPlan, PlannedStep } from './plan.ts';
import type { FlowRecord, Move, StepRow } from './record.ts';

/** Facts that the run knows about a flow beside its record. */
export interface Known {
  readonly cancelAsked: boolean;
  /** Time at which its start was known to have committed, in Unix milliseconds. */
  readonly startedMs: number;
  /** Steps whose signal was accepted, and when, in Unix milliseconds. */
  readonly signalled: ReadonlyMap<string, number>;
  /** Longest stretch between two times in which a leader was alive and the machine did not stall, in milliseconds. */
  readonly aliveMs: (fromMs: number, toMs: number) => number;
  /** Longest time from the last end that a step waits for to the step's own. */
  readonly promptMs: number;
}

/** Faults found, and the longest time from a step's last job to its end, in milliseconds. */
export interface Findings {
  readonly wrong: readonly string[];
  readonly latestMs: number;
}

export function judgeFlow({ definition }: FlowPlan, record: FlowRecord, known: Known): Findings {
  const { steps } = definition;
  const outcomes = record.steps.map(({ outcome }) => outcome ?? undefined);
  if (record.state === 'open') return { wrong: ['it is open'], latestMs: 0 };
  const late = lateness(steps, record, known);
  return {
    wrong: [
      ...stateOf(steps, record, known),
      ...steps.flatMap((step, index) => {
        const row = record.steps[index];
        if (row === undefined) return [`step ${index} is missing`];
        const wrong = [
          ...decisionOf(steps, index, { record, outcomes }),
          ...(step.kind === 'jobs' ? jobsOf(step, row, record) : []),
        ];
        return wrong.map((one) => `${row.name}: ${one}`);
      }),
      ...orderOf(steps, record),
      ...againOf(record),
      ...growthOf(steps, record),
      ...(record.waiting > 0 ? [`${record.waiting} of its jobs are in QUEUE`] : []),
      ...late
        .filter(({ ms }) => ms > known.promptMs)
        .map(({ what, ms }) => `${what} came ${Math.round(ms)} ms late`),
    ],
    latestMs: Math.max(0, ...late.map(({ ms }) => ms)),
  };
}

function stateOf(steps: readonly PlannedStep[], record: FlowRecord, known: Known): readonly string[] {
  const { state, stoppingMs, deadlineMs } = record;
  const outcomes = record.steps.map(({ outcome }) => outcome ?? undefined);
  const expected = stoppingMs !== null ? 'cancelled' : hasFailed(steps, outcomes) ? 'failed' : 'done';
  return [
    ...(state === expected ? [] : [`it is ${state}, and should be ${expected}`]),
    ...(stoppingMs !== null && !known.cancelAsked && deadlineMs === null ? ['nobody cancelled it'] : []),
  ];
}

/** Checks that a step ran or was skipped as the outcomes of its needs say. */
function decisionOf(
  steps: readonly PlannedStep[],
  index: number,
  { record, outcomes }: { readonly record: FlowRecord; readonly outcomes: readonly (Outcome | undefined)[] },
): readonly string[] {
  const [step, row] = [steps[index], record.steps[index]];
  if (step === undefined || row === undefined) return [];
  if (row.state !== 'ended') return [`it is ${row.state} in a flow that has ended`];
  const decision = decide(step, outcomes);
  const opened = new Set(
    record.retries.flatMap(({ answer, opened }) => (answer === 'retried' ? opened : [])),
  );
  if (row.outcome !== 'skipped') {
    const before = opened.has(index);
    const valued = step.kind !== 'signal' || row.outcome !== 'done' || record.results.has(record.id);
    return [
      ...(decision === 'opens' || before ? [] : [`it is ${row.outcome}, and should be skipped`]),
      ...(valued ? [] : ['it is done without its signal']),
    ];
  }
  const ins = record.moves.filter((move) => move.step === index && move.kind === 'in');
  // the cancellation has skipped it, and a retry of another part leaves it alone
  const leftOut = record.retries.some(
    ({ answer, cancelled, step: from }) =>
      answer === 'retried' &&
      cancelled &&
      from !== null &&
      !behind(
        steps,
        record.steps.findIndex(({ name }) => name === from),
      ).has(index),
  );
  const fair =
    decision === 'skips' ||
    record.stoppingMs !== null ||
    leftOut ||
    isSuperfluous(steps, index, { outcomes, opened });
  return [
    ...(fair ? [] : ['it is skipped, and should have run']),
    ...(ins.length > 0 ? [`it is skipped, and ${ins.length} of its jobs were enqueued`] : []),
  ];
}

/** The end of a job that has left QUEUE: a `JobEnd`, or a sentence if the tables contradict each other. */
function endOf(job: string, { dead, results, history, ran }: FlowRecord): string {
  const noted = results.get(job)?.outcome ?? 'done';
  const kept = dead.has(job) ? 'dead' : history.get(job);
  if (kept !== undefined && kept !== noted) return `job ${job} is ${kept}, and noted as ${noted}`;
  if (noted === 'done' && !ran.some((one) => one.job === job && one.what === 'ok')) {
    return `job ${job} is done, and its handler never came to its end`;
  }
  return noted;
}

const endsKnown: readonly string[] = [
  'done',
  'dead',
  'cancelled',
  'expired',
  'erased',
] satisfies readonly JobEnd[];
const isEnd = (end: string): end is JobEnd => endsKnown.includes(end);

/** Checks a step's jobs against its counts and its outcome. */
function jobsOf(step: PlannedStep, row: StepRow, record: FlowRecord): readonly string[] {
  const moves = record.moves.filter((move) => move.step === row.step);
  const planned = new Map(step.jobs.map((job) => [job.id, job]));
  const byJob = Map.groupBy(moves, ({ job }) => job);
  const first = (job: string): number =>
    (byJob.get(job) ?? []).filter(({ kind, again }) => kind === 'in' && !again).length;
  const grown = [...byJob.keys()].filter((job) => !planned.has(job));
  // a queue without history does not know a job that is done, so a repeated call may enqueue it once more
  const twice = grown.filter((job) => first(job) > 1);
  const ends = [...byJob.keys()].map((job) => endOf(job, record));
  const good = ends.filter(isEnd);
  const count = (...kinds: readonly JobEnd[]): number => good.filter((end) => kinds.includes(end)).length;
  const outs = moves.filter(({ kind }) => kind === 'out').length;
  const again = moves.filter(({ again }) => again).length;
  const unreleased = record.unreleased.get(row.step) ?? 0;
  const added = step.jobs.length + grown.reduce((sum, job) => sum + first(job), 0);
  const told = `added ${row.added}, done ${row.done}, failed ${row.failed}, other ${row.other}`;
  const skipped = row.outcome === 'skipped';
  const sums = row.added === added && row.done + row.failed + row.other === outs - again;
  const each =
    twice.length > 0 ||
    (row.done === count('done') &&
      row.failed === count('dead') &&
      row.other === count('cancelled', 'expired', 'erased'));
  const expected = outcomeOf(good, row.stop);
  return [
    ...ends.filter((end) => !isEnd(end)),
    ...(sums && each
      ? []
      : [
          `${told}; of ${added} jobs ${outs - again} ended: ${count('done')} done, ${count('dead')} dead, the rest other`,
        ]),
    ...twice
      .filter((job) => record.history.has(job))
      .map((job) => `job ${job} was added ${first(job)} times`),
    ...(skipped || row.outcome === expected ? [] : [`it is ${row.outcome}, and should be ${expected}`]),
    ...(skipped || unreleased > 0
      ? []
      : step.jobs.flatMap(({ id }) =>
          first(id) === 1 ? [] : [`job ${id} was enqueued ${first(id)} times`],
        )),
    ...[...byJob].flatMap(([job, own]) => {
      const balance = own.reduce((sum, { kind }) => sum + (kind === 'in' ? 1 : -1), 0);
      return balance === 0 ? [] : [`job ${job} got into QUEUE ${balance} times more than it left`];
    }),
    ...step.jobs.flatMap(({ id, payload: { effect = false } }) => {
      const effects = record.ran.filter(({ job, what }) => job === id && what === 'effect').length;
      const wanted = effect && byJob.has(id) && endOf(id, record) === 'done' ? 1 : 0;
      return effects === wanted ? [] : [`job ${id} took effect ${effects} times`];
    }),
  ];
}

/** Checks that a step's jobs came only when nothing was left of what it needs, and began only after that. */
function orderOf(steps: readonly PlannedStep[], { moves, ran }: FlowRecord): readonly string[] {
  const inside = steps.map(() => new Set<string>());
  const planned = steps.map(({ jobs }) => new Set(jobs.map(({ id }) => id)));
  const came = new Map<string, number>();
  const wrong: string[] = [];
  const judge = ({ step, job }: Move): void => {
    const own = steps[step];
    if (own === undefined || own.needs.length === 0 || planned[step]?.has(job) !== true) return;
    const left = own.needs.map(([needed]) => inside[needed]?.size ?? 0);
    const ready = own.wants === 'all' ? left.every((size) => size === 0) : left.includes(0);
    if (!ready)
      wrong.push(`${own.name}: job ${job} came while ${left.join(' and ')} jobs of its needs were in QUEUE`);
  };
  for (const move of moves) {
    if (move.kind === 'in') {
      if (!move.again) judge(move);
      const added = !move.again && planned[move.step]?.has(move.job) === false;
      if (added && inside[move.step]?.size === 0) {
        wrong.push(`step ${move.step}: job ${move.job} was added when no job of it was left`);
      }
      inside[move.step]?.add(move.job);
      if (!came.has(move.job)) came.set(move.job, move.atMs);
    } else inside[move.step]?.delete(move.job);
  }
  for (const { job, what, atMs } of ran) {
    if (what === 'begin' && atMs < (came.get(job) ?? Infinity)) wrong.push(`job ${job} began before it came`);
  }
  return wrong;
}

/** Checks that a retry leaves alone what is done. */
function againOf({ moves, retries }: FlowRecord): readonly string[] {
  const unfinished = new Set(
    retries.flatMap(({ answer, unfinished }) => (answer === 'retried' ? unfinished : [])),
  );
  return moves.flatMap(({ again, job, kind }) =>
    kind === 'in' && again && !unfinished.has(job) ? [`job ${job} was done, and a retry enqueued it`] : [],
  );
}

/** Checks that jobs which are added with a settlement come with it, once. */
function growthOf(steps: readonly PlannedStep[], record: FlowRecord): readonly string[] {
  const fans = steps.flatMap(({ jobs }) =>
    jobs.flatMap(({ id, payload }: { readonly id: string; readonly payload: Conduct }) =>
      payload.grows?.how === 'fan_out' ? [{ id, children: payload.grows.children }] : [],
    ),
  );
  if (fans.length === 0) return [];
  const firsts = Map.groupBy(
    record.moves.filter(({ kind, again }) => kind === 'in' && !again),
    ({ job }) => job,
  );
  return fans.flatMap(({ id, children }) => {
    const wanted = firsts.has(id) && endOf(id, record) === 'done' ? 1 : 0;
    return children.flatMap((child) => {
      const times = firsts.get(child.id)?.length ?? 0;
      return times === wanted
        ? []
        : [`job ${child.id}, which ${id} adds at its end, was enqueued ${times} times`];
    });
  });
}

/** How late each thing came, while a leader was alive. */
function lateness(
  steps: readonly PlannedStep[],
  record: FlowRecord,
  { aliveMs, signalled, startedMs, promptMs }: Known,
): readonly { readonly what: string; readonly ms: number }[] {
  const late: { readonly what: string; readonly ms: number }[] = [];
  const note = (what: string, fromMs: number, toMs: number): void =>
    void late.push({ what, ms: aliveMs(Math.max(fromMs, startedMs), toMs) });
  for (const [index, step] of steps.entries()) {
    const row = record.steps[index];
    if (row === undefined || row.endedMs === null || row.openedMs === null) continue;
    const moves = record.moves.filter((move) => move.step === index);
    const lastMs = Math.max(
      row.openedMs,
      ...moves.filter(({ kind }) => kind === 'out').map(({ atMs }) => atMs),
      ...record.retries.map(({ atMs }) => atMs).filter((atMs) => atMs < (row.endedMs ?? 0)),
    );
    if (step.kind === 'jobs') {
      note(`the end of ${row.name}`, lastMs, row.endedMs);
      // its time is from the beginning of the leader's transaction
      if (lastMs - row.endedMs > promptMs && aliveMs(row.endedMs, lastMs) > promptMs) {
        late.push({ what: `the last job of ${row.name}, after its end,`, ms: lastMs - row.endedMs });
      }
      const planned = new Set(step.jobs.map(({ id }) => id));
      const firsts = moves.filter(({ kind, again, job }) => kind === 'in' && !again && planned.has(job));
      const { openedMs } = row;
      for (const { atMs } of firsts) note(`a job of ${row.name}`, openedMs, atMs);
    } else if (step.kind === 'timer') {
      if (row.outcome === 'done' && row.dueMs !== null) note(`the timer ${row.name}`, row.dueMs, row.endedMs);
    } else if (row.outcome === 'done' && record.retries.length === 0) {
      note(
        `the signal ${row.name}`,
        Math.max(row.openedMs, signalled.get(row.name) ?? Infinity),
        row.endedMs,
      );
    }
  }
  const { deadlineMs, stoppingMs, endedMs } = record;
  if (deadlineMs !== null) note('its deadline', deadlineMs, stoppingMs ?? endedMs ?? Infinity);
  return late;
}

/** Stretches that count for nobody: no leader, or a machine that stands still. */
export function aliveWithout(
  pauses: readonly { readonly fromMs: number; readonly toMs: number }[],
): Known['aliveMs'] {
  const sorted = pauses.toSorted((a, b) => a.fromMs - b.fromMs);
  return (fromMs, toMs) => {
    let [at, longest] = [fromMs, 0];
    for (const pause of sorted) {
      if (pause.toMs <= at) continue;
      if (pause.fromMs >= toMs) break;
      longest = Math.max(longest, pause.fromMs - at);
      at = pause.toMs;
    }
    return Math.max(0, longest, toMs - at);
  };
}
