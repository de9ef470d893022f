import type { Attributes } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import type { Arrival } from './arrival.ts';

/** Mapping from jobs of the Standard Workload Format to jobs of queues. */
export interface SwfOptions {
  /** Field that becomes the key. Default `user`. */
  readonly key?: 'user' | 'group' | 'executable' | 'partition';
  /**
   * Default `own`: the queue's number, `queue-3`, or the name that a header comment gives it. `one`: all jobs
   * in `default`.
   */
  readonly queues?: 'own' | 'one';
  /** Default `auto`: Unix time if the header has UnixStartTime, else from 0 on. `zero`: from 0 on. */
  readonly clock?: 'auto' | 'zero';
}

/** A workload of the parallel workloads archive. */
export interface SwfWorkload {
  /** Jobs in the order of their submission. Processors, user, group and the like are attributes. */
  readonly arrivals: readonly Arrival[];
  /** Comments of the form `; Name: value`, by name. The first one of a name counts. */
  readonly header: Readonly<Record<string, string>>;
  readonly skipped: {
    /** Jobs whose submit or run time is unknown (-1). */
    readonly unknownTimes: number;
    /** Jobs that were cancelled before they ran. */
    readonly cancelled: number;
    /** Parts of checkpointed jobs. The job's own line stands for them. */
    readonly parts: number;
  };
}

/** Fields of a line, in the order of the format's definition. */
const fields = [
  'job number',
  'submit time',
  'wait time',
  'run time',
  'allocated processors',
  'average CPU time',
  'used memory',
  'requested processors',
  'requested time',
  'requested memory',
  'status',
  'user',
  'group',
  'executable',
  'queue',
  'partition',
  'preceding job',
  'think time',
] as const;

type Field = (typeof fields)[number];
type SwfLine = Readonly<Record<Field, number>>;

const problemsMax = 5;
const unknown = -1;
/** Status codes of the format. */
const cancelled = 5;
const parts: ReadonlySet<number> = new Set([2, 3, 4]);

/**
 * Reads the Standard Workload Format 2.2 (Feitelson's parallel workloads archive). Each job is a line of 18
 * numbers, -1 for an unknown one. Comments begin with `;`.
 * @throws {PgQueueError} `configuration`, with the numbers of the first wrong lines, up to 5
 */
export function parseSwf(text: string, options: SwfOptions = {}): SwfWorkload {
  const header: Record<string, string> = {};
  const queueNames = new Map<number, string>();
  const lines: SwfLine[] = [];
  const problems: string[] = [];
  const skipped = { unknownTimes: 0, cancelled: 0, parts: 0 };
  let number = 0;
  for (const raw of linesOf(text)) {
    number += 1;
    const line = raw.trim();
    if (line === '') continue;
    if (line.startsWith(';')) {
      readComment(line.slice(1).trim(), header, queueNames);
      continue;
    }
    const read = readLine(line);
    if (typeof read === 'string') {
      problems.push(`line ${number}: ${read}`);
      if (problems.length >= problemsMax) break;
      continue;
    }
    const why = skips(read);
    if (why === undefined) lines.push(read);
    else skipped[why] += 1;
  }
  if (problems.length > 0) {
    throw new PgQueueError('configuration', `this is no Standard Workload Format: ${problems.join('; ')}`, {
      data: { problems },
    });
  }
  const startMs = startOf(header, options);
  const arrivals = lines
    .map((line) => toArrival(line, { startMs, options, queueNames }))
    .toSorted((a, b) => a.atMs - b.atMs);
  return { arrivals, header, skipped };
}

/** Yields the lines without building an array of them: logs have millions of lines. */
function* linesOf(text: string): Generator<string> {
  let from = text.charCodeAt(0) === 0xfeff ? 1 : 0;
  while (from < text.length) {
    const end = text.indexOf('\n', from);
    yield text.slice(from, end < 0 ? text.length : end);
    if (end < 0) return;
    from = end + 1;
  }
}

function readComment(comment: string, header: Record<string, string>, queues: Map<number, string>): void {
  const [, name, value = ''] = /^([A-Za-z]\w*) *: *(.*)$/.exec(comment) ?? [];
  if (name === undefined) return;
  if (!Object.hasOwn(header, name)) header[name] = value;
  const [, number, title] = name === 'Queue' ? (/^(\d+)\s+(\S+)/.exec(value) ?? []) : [];
  if (number !== undefined && title !== undefined) queues.set(Number(number), title);
}

/** Reads one line. Returns a text that says why if it is invalid. */
function readLine(line: string): SwfLine | string {
  const words = line.split(/\s+/);
  if (words.length !== fields.length) return `${words.length} fields, where ${fields.length} are expected`;
  const read: Partial<Record<Field, number>> = {};
  for (const [at, field] of fields.entries()) {
    const word = words[at] ?? '';
    const value = /^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$/.test(word) ? Number(word) : Number.NaN;
    if (!Number.isFinite(value))
      return `field ${at + 1} (${field}) is no number: ${JSON.stringify(word.slice(0, 40))}`;
    if (value < 0 && value !== unknown)
      return `field ${at + 1} (${field}) is ${word}; below 0 there is only -1, for unknown`;
    read[field] = value;
  }
  return read as SwfLine;
}

function skips(line: SwfLine): 'unknownTimes' | 'cancelled' | 'parts' | undefined {
  if (parts.has(line.status)) return 'parts';
  if (line.status === cancelled && line['run time'] <= 0) return 'cancelled';
  return line['submit time'] === unknown || line['run time'] === unknown ? 'unknownTimes' : undefined;
}

function startOf(header: Readonly<Record<string, string>>, { clock = 'auto' }: SwfOptions): number {
  const seconds = Number(Object.hasOwn(header, 'UnixStartTime') ? header['UnixStartTime'] : Number.NaN);
  return clock === 'auto' && Number.isFinite(seconds) && seconds >= 0 ? seconds * 1_000 : 0;
}

function toArrival(
  line: SwfLine,
  from: {
    readonly startMs: number;
    readonly options: SwfOptions;
    readonly queueNames: ReadonlyMap<number, string>;
  },
): Arrival {
  const { key = 'user', queues = 'own' } = from.options;
  const queue = line.queue;
  const named = queue === unknown ? undefined : (from.queueNames.get(queue) ?? `queue-${queue}`);
  return {
    atMs: from.startMs + line['submit time'] * 1_000,
    durationMs: line['run time'] * 1_000,
    id: `swf-${line['job number']}`,
    key: line[key] === unknown ? '' : `${key}-${line[key]}`,
    ...(named === undefined || queues === 'one' ? {} : { queue: named }),
    attributes: attributesOf(line),
  };
}

/**
 * Returns the known attributes. `processors` are those that the job was given, else those that it asked for.
 */
function attributesOf(line: SwfLine): Attributes {
  const processors =
    line['allocated processors'] > 0 ? line['allocated processors'] : line['requested processors'];
  const seconds = line['requested time'];
  const values = {
    processors: processors > 0 ? processors : unknown,
    requestedMs: seconds === unknown ? unknown : seconds * 1_000,
    requestedMemoryKb: line['requested memory'],
    user: line.user,
    group: line.group,
    executable: line.executable,
    partition: line.partition,
  };
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== unknown));
}
