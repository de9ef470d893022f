// Random flows: equal seeds make equal graphs, and the same acts on them.
import { chances } from '../../chaos/workload.ts';
import type { Child, Conduct, FlowJob } from './conduct.ts';
import { jobOf, shortLeaseMs } from './conduct.ts';
import type { Condition, Step } from './graph.ts';

/** A step as `start_flow` takes it. */
export interface PlannedStep extends Step {
  readonly name: string;
  readonly delay_ms: number | null;
  readonly stop_after: number | null;
  readonly jobs: readonly FlowJob[];
}

/** A flow as `start_flow` takes it. */
export interface Definition {
  readonly id: string;
  readonly name: string;
  readonly key: string;
  readonly unique_key: string | null;
  readonly deadline_ms: number | null;
  readonly steps: readonly PlannedStep[];
}

/** A flow, and what is done to it. Times count from its start. */
export interface FlowPlan {
  readonly definition: Definition;
  /**
   * `rolled-back`: its transaction is; `lost`: the reply is lost, and the start repeated; `late`: its
   * transaction goes on for a while.
   */
  readonly start: 'plain' | 'rolled-back' | 'lost' | 'late';
  readonly signals: readonly { readonly step: string; readonly atMs: number; readonly times: number }[];
  readonly cancelAtMs: number | null;
  /** Retries of what has failed; the first may come while the flow is open. */
  readonly retries: readonly {
    readonly whole: boolean;
    readonly openAtMs: number | null;
  }[];
  /** Cancels or erases some of its jobs. */
  readonly strikes: readonly {
    readonly job: string;
    readonly atMs: number;
    readonly how: 'cancel' | 'erase';
  }[];
}

type Random = () => number;

/** Queues of the proof; `brief` keeps nothing of what is done. */
export const queues = ['wide', 'brief'] as const;

const between = (random: Random, from: number, to: number): number => from + random() * (to - from);
const whole = (random: Random, from: number, to: number): number => Math.floor(between(random, from, to + 1));
const pick = <Value>(random: Random, values: readonly [Value, ...Value[]]): Value =>
  values[Math.floor(random() * values.length)] ?? values[0];

/** A uuid of version 7 of the present, with the rest of it drawn. */
function idOf(random: Random): string {
  const time = Date.now().toString(16).padStart(12, '0');
  const drawn = Array.from({ length: 18 }, () => Math.floor(random() * 16).toString(16)).join('');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${drawn.slice(0, 3)}-a${drawn.slice(3, 6)}-${drawn.slice(6)}`;
}

export function planFlow(seed: number, n: number, stepsMax: number): FlowPlan {
  const random = chances('flow', seed, n);
  const id = idOf(random);
  const size = random();
  const count = whole(random, 1, size < 0.6 ? 8 : size < 0.9 ? 20 : stepsMax);
  const troubles = random() < 0.7;
  const steps: PlannedStep[] = [];
  for (let step = 0; step < Math.min(count, stepsMax); step += 1) {
    steps.push(planStep(random, { flow: id, step, troubles }));
  }
  const all = steps.flatMap(({ jobs }) => jobs);
  const retries = Array.from({ length: pick(random, [0, 1, 1, 2]) }, () => ({
    whole: random() < 0.7,
    openAtMs: random() < 0.3 ? between(random, 200, 4_000) : null,
  }));
  const start = random();
  return {
    definition: {
      id,
      name: `proof-${n % 7}`,
      key: random() < 0.3 ? `key-${n % 5}` : '',
      unique_key: random() < 0.2 ? `unique-${n % 2}` : null,
      deadline_ms: random() < 0.15 ? whole(random, 500, 15_000) : null,
      steps,
    },
    start: start < 0.08 ? 'rolled-back' : start < 0.3 ? 'lost' : start < 0.4 ? 'late' : 'plain',
    signals: steps.flatMap(({ kind, name }) =>
      kind === 'signal' ? [{ step: name, atMs: between(random, 0, 5_000), times: whole(random, 1, 3) }] : [],
    ),
    cancelAtMs: random() < 0.08 ? between(random, 0, 4_000) : null,
    retries: troubles || random() < 0.2 ? retries : [],
    strikes: all
      .filter(() => random() < 0.01)
      .map((job) => ({
        job: job.id,
        atMs: between(random, 0, 4_000),
        how: random() < 0.7 ? ('cancel' as const) : ('erase' as const),
      })),
  };
}

function planStep(
  random: Random,
  { flow, step, troubles }: { readonly flow: string; readonly step: number; readonly troubles: boolean },
): PlannedStep {
  const needs = new Map<number, Condition>();
  const wanted = step === 0 || random() < 0.1 ? 0 : pick(random, [1, 1, 1, 2, 2, 3, 5]);
  for (let need = 0; need < wanted; need += 1) {
    // mostly one of the latest
    const back = random() < 0.7 ? whole(random, 1, Math.min(step, 4)) : whole(random, 1, step);
    needs.set(step - back, pick(random, ['done', 'done', 'done', 'done', 'ended', 'ended', 'failed']));
  }
  const kinds = random();
  const kind = kinds < 0.8 ? 'jobs' : kinds < 0.9 ? 'timer' : 'signal';
  const many = random();
  const jobs =
    kind !== 'jobs' || many < 0.08
      ? 0
      : many < 0.72
        ? whole(random, 1, 4)
        : many < 0.96
          ? whole(random, 5, 12)
          : whole(random, 13, 40);
  return {
    name: `step-${step}`,
    kind,
    wants: random() < 0.2 ? 'any' : 'all',
    needs: [...needs],
    delay_ms: kind === 'timer' ? whole(random, 50, 2_000) : null,
    stop_after: kind === 'jobs' && random() < 0.1 ? whole(random, 1, 2) : null,
    jobs: Array.from({ length: jobs }, () => planJob(random, { flow, step, troubles })),
  };
}

function planJob(
  random: Random,
  { flow, step, troubles }: { readonly flow: string; readonly step: number; readonly troubles: boolean },
): FlowJob {
  const fate = troubles ? random() : 1;
  const grows = random() < 0.1;
  const conduct: Conduct = { flow, step, ms: random() < 0.8 ? whole(random, 0, 15) : whole(random, 15, 150) };
  if (fate < 0.03) conduct.dies = whole(random, 1, 2);
  else if (fate < 0.1) conduct.fails = whole(random, 1, 4);
  else if (fate < 0.12) conduct.hangs = true;
  const more = random();
  if (grows) conduct.grows = planGrowth(random);
  else if (more < 0.1) conduct.effect = true;
  else if (more < 0.2) {
    conduct.durable = {
      kids: whole(random, 0, 5),
      napMs: whole(random, 1, 300),
      waits: random() < 0.3,
      told: random() < 0.6 ? whole(random, 1, 8) : 0,
    };
  }
  return jobOf({
    id: idOf(random),
    task: grows && random() < 0.5 ? 'flow-grow' : 'flow-step',
    queue: random() < 0.3 ? 'brief' : 'wide',
    key: random() < 0.3 ? `key-${whole(random, 0, 3)}` : '',
    delay_ms: random() < 0.05 ? whole(random, 10, 800) : null,
    expires_at:
      fate > 0.12 && fate < 0.13 ? new Date(Date.now() + whole(random, 100, 3_000)).toISOString() : null,
    ...(conduct.hangs === true ? { timeout_ms: shortLeaseMs } : {}),
    payload: conduct,
  });
}

function planGrowth(random: Random): NonNullable<Conduct['grows']> {
  const children: readonly Child[] = Array.from({ length: whole(random, 1, 6) }, () => ({
    id: idOf(random),
    queue: random() < 0.3 ? 'brief' : 'wide',
    ms: whole(random, 0, 30),
  }));
  return { how: pick(random, ['add', 'fan_out']), twice: random() < 0.2, children: [...children] };
}
