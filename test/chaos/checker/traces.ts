// Groups the events of a history by job and by node.
import type { EventOf, HistoryEvent, RunFacts, SettleOutcome, SettleVerdict } from './history.ts';

/** Times at which a call was sent and answered; `to` is Infinity if no answer came. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

export interface SettleTrace extends Span {
  readonly outcome: SettleOutcome;
  /**
   * The server's verdict. `none`: no answer came, or the server reported that nothing was changed. `stale`:
   * refused.
   */
  readonly verdict: SettleVerdict | 'stale' | 'none';
  readonly unknown: boolean;
}

/** Events of one lease: a job's id under one token. */
export interface LeaseTrace {
  readonly id: string;
  readonly token: string;
  readonly node: string;
  readonly claim: Span;
  readonly leaseMs: number;
  /** Extensions that were granted. */
  readonly extended: (Span & { readonly ms: number })[];
  /** Releases that were granted, or may have been. */
  readonly released: Span[];
  readonly settles: SettleTrace[];
  readonly starts: number[];
}

export interface JobTrace {
  readonly id: string;
  readonly enqueues: ('ok' | 'fail' | 'unknown')[];
  /** Time of the first acknowledgement. */
  ackedAt: number;
  cancelAsked: boolean;
  readonly leases: Map<string, LeaseTrace>;
  readonly finals: EventOf<'final'>[];
}

export interface NodeTrace {
  /** Times of its answered heartbeats, as they were sent. */
  readonly beats: number[];
  readonly ended: number[];
  /** Times from the request of a reset until its end: it may have hit leases that were claimed meanwhile. */
  readonly resets: { readonly from: number; to: number }[];
  readonly left: number[];
}

export interface Spoil {
  readonly what: string;
  readonly kind: string;
  readonly from: number;
  readonly to: number;
}

export interface Traces {
  readonly facts: RunFacts;
  readonly jobs: ReadonlyMap<string, JobTrace>;
  readonly nodes: ReadonlyMap<string, NodeTrace>;
  readonly spoils: readonly Spoil[];
  readonly events: readonly HistoryEvent[];
}

type Invoked<Type extends 'enqueue' | 'cancel' | 'claim' | 'extend' | 'release' | 'settle'> = Extract<
  EventOf<Type>,
  { readonly phase: 'invoke' }
>;
type Answers = ReadonlyMap<string, HistoryEvent>;

/** @throws when the history does not say what was run */
export function trace(history: readonly HistoryEvent[]): Traces {
  const events = history.toSorted((a, b) => a.at - b.at);
  const facts = events.find((event) => event.type === 'run')?.facts;
  if (facts === undefined) throw new Error('the history has no line of type run');
  const answers = new Map(
    events.flatMap((event) => ('op' in event && event.phase !== 'invoke' ? [[event.op, event]] : [])),
  );
  const jobs = new Map<string, JobTrace>();
  const nodes = new Map<string, NodeTrace>();
  // leases first: an event of a lease may carry an earlier time than the answer to its claim
  for (const event of events) if (event.type === 'claim') addClaim(jobs, event, answers);
  for (const event of events) addEvent({ jobs, nodes }, event, answers);
  return { facts, jobs, nodes, spoils: spoilsOf(events), events };
}

export function jobIn(jobs: Map<string, JobTrace>, id: string): JobTrace {
  let job = jobs.get(id);
  if (job === undefined) {
    job = { id, enqueues: [], ackedAt: Infinity, cancelAsked: false, leases: new Map(), finals: [] };
    jobs.set(id, job);
  }
  return job;
}

function nodeIn(nodes: Map<string, NodeTrace>, name: string): NodeTrace {
  let node = nodes.get(name);
  if (node === undefined) {
    node = { beats: [], ended: [], resets: [], left: [] };
    nodes.set(name, node);
  }
  return node;
}

/**
 * Returns the lease of an event. Makes one if the history has no claim of it: it begins with its first event,
 * and its length is unknown.
 */
function leaseIn(
  jobs: Map<string, JobTrace>,
  {
    id,
    token,
    node,
    at,
  }: { readonly id: string; readonly token: string; readonly node: string; readonly at: number },
): LeaseTrace {
  const job = jobIn(jobs, id);
  let lease = job.leases.get(token);
  if (lease === undefined) {
    lease = emptyLease({ id, token, node, claim: { from: at, to: at }, leaseMs: Infinity });
    job.leases.set(token, lease);
  }
  return lease;
}

function emptyLease(known: Pick<LeaseTrace, 'id' | 'token' | 'node' | 'claim' | 'leaseMs'>): LeaseTrace {
  return { ...known, extended: [], released: [], settles: [], starts: [] };
}

function addClaim(jobs: Map<string, JobTrace>, event: EventOf<'claim'>, answers: Answers): void {
  if (event.phase !== 'invoke') return;
  const answer = answers.get(event.op);
  if (answer?.type !== 'claim' || answer.phase !== 'ok') return;
  const { node, token } = event;
  const claim = { from: event.at, to: answer.at };
  for (const [id, leaseMs] of answer.leases) {
    jobIn(jobs, id).leases.set(token, emptyLease({ id, token, node, claim, leaseMs }));
  }
}

interface Known {
  readonly jobs: Map<string, JobTrace>;
  readonly nodes: Map<string, NodeTrace>;
}

function addEvent({ jobs, nodes }: Known, event: HistoryEvent, answers: Answers): void {
  switch (event.type) {
    case 'enqueue':
      if (event.phase === 'invoke') addEnqueue(jobs, event, answers.get(event.op));
      return;
    case 'cancel':
      if (event.phase === 'invoke') jobIn(jobs, event.id).cancelAsked = true;
      return;
    case 'extend':
      if (event.phase === 'invoke') addExtend(jobs, event, answers.get(event.op));
      return;
    case 'release':
      if (event.phase === 'invoke') addRelease(jobs, event, answers.get(event.op));
      return;
    case 'settle':
      if (event.phase === 'invoke') addSettle(jobs, event, answers.get(event.op));
      return;
    case 'start':
      leaseIn(jobs, event).starts.push(event.at);
      return;
    case 'final':
      jobIn(jobs, event.id).finals.push(event);
      return;
    case 'beat':
      nodeIn(nodes, event.node).beats.push(event.sentAt);
      return;
    case 'down':
      nodeIn(nodes, event.node).ended.push(event.at);
      return;
    case 'reset':
      nodeIn(nodes, event.node).resets.push({ from: event.at, to: event.at });
      return;
    case 'fault': {
      const reset = event.kind === 'node-reset' && event.phase === 'made' ? event.target : undefined;
      const last = reset === undefined ? undefined : nodeIn(nodes, reset).resets.at(-1);
      if (last !== undefined) last.to = event.at;
      return;
    }
    case 'leave':
      nodeIn(nodes, event.node).left.push(event.at);
      return;
    case 'claim': // handled above
    case 'run':
    case 'end':
    case 'snapshot':
    case 'sample':
    case 'dispatch':
    case 'item': // read unchanged by the checks
  }
}

function addEnqueue(
  jobs: Map<string, JobTrace>,
  event: Invoked<'enqueue'>,
  answer: HistoryEvent | undefined,
): void {
  const phase = answer?.type === 'enqueue' && answer.phase !== 'invoke' ? answer.phase : 'unknown';
  for (const id of event.ids) {
    const job = jobIn(jobs, id);
    job.enqueues.push(phase);
    if (phase === 'ok') job.ackedAt = Math.min(job.ackedAt, answer?.at ?? Infinity);
  }
}

function addExtend(
  jobs: Map<string, JobTrace>,
  event: Invoked<'extend'>,
  answer: HistoryEvent | undefined,
): void {
  if (answer?.type !== 'extend' || answer.phase !== 'ok') return;
  const held = new Set(answer.held);
  for (const [id, token, ms] of event.leases) {
    if (!held.has(id)) continue;
    leaseIn(jobs, { id, token, node: '', at: event.at }).extended.push({ from: event.at, to: answer.at, ms });
  }
}

function addRelease(
  jobs: Map<string, JobTrace>,
  event: Invoked<'release'>,
  answer: HistoryEvent | undefined,
): void {
  const ok = answer?.type === 'release' && answer.phase === 'ok' ? new Set(answer.given) : undefined;
  if (answer?.type === 'release' && answer.phase === 'fail') return;
  for (const [id, token] of event.leases) {
    if (ok !== undefined && !ok.has(id)) continue;
    const to = ok === undefined ? Infinity : (answer?.at ?? Infinity);
    leaseIn(jobs, { id, token, node: '', at: event.at }).released.push({ from: event.at, to });
  }
}

function addSettle(
  jobs: Map<string, JobTrace>,
  event: Invoked<'settle'>,
  answer: HistoryEvent | undefined,
): void {
  const answered = answer?.type === 'settle' && answer.phase !== 'invoke' ? answer : undefined;
  const verdicts = answered?.phase === 'ok' ? new Map(answered.verdicts) : undefined;
  const unknown = answered === undefined || answered.phase === 'unknown';
  for (const [id, token, outcome] of event.leases) {
    leaseIn(jobs, { id, token, node: '', at: event.at }).settles.push({
      from: event.at,
      to: unknown ? Infinity : answered.at,
      outcome,
      verdict: verdicts === undefined ? 'none' : (verdicts.get(id) ?? 'stale'),
      unknown,
    });
  }
}

/**
 * Returns the times during which each fault excuses violations: from right before its beginning to its end.
 */
function spoilsOf(events: readonly HistoryEvent[]): readonly Spoil[] {
  const faults = events.filter((event) => event.type === 'fault');
  return faults
    .filter(({ phase, spoils = [] }) => phase === 'start' && spoils.length > 0)
    .flatMap(({ n, kind, at, spoils = [] }) => {
      const to = faults.find((other) => other.n === n && other.phase === 'healed')?.at ?? Infinity;
      return spoils.map((what) => ({ what, kind, from: at, to }));
    });
}
