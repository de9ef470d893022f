// Which statements are calls that a history tells of, and how.
import { threadId } from 'node:worker_threads';
import type { HistoryEntry, SettleOutcome, SettleVerdict } from '../checker/history.ts';
import { actorName } from '../../support/actors/messages.ts';
import { monotonicMs } from '../record.ts';

type Rows = readonly Readonly<Record<string, unknown>>[];

/** A call of one of pgqueue's functions, as it was sent. */
export interface Heard {
  readonly invoked?: HistoryEntry;
  readonly answered: (rows: Rows, sentAt: number) => HistoryEntry | undefined;
  /** `refused`: nothing was changed, for sure. */
  readonly failed: (refused: boolean) => HistoryEntry | undefined;
  /** The token of a claim: its rows are leases. */
  readonly leased?: string;
}

/** The functions call it `job_id`, some statements rename it. @throws where neither is there: a history without answers would prove nothing */
function idOf(row: Rows[number]): string {
  const id = row['id'] ?? row['job_id'];
  if (typeof id !== 'string') throw new Error(`an answer has no job: ${Object.keys(row).join(', ')}`);
  return id;
}

let calls = 0;
const lists = (parameters: readonly unknown[], count: number): readonly string[][] =>
  Array.from({ length: count }, (_, index) => (parameters[index] ?? []) as string[]);

/** Undefined: no such call. */
export function hearingOf(text: string, parameters: readonly unknown[]): Heard | undefined {
  const name =
    /\.(claim|claim_rows|settle|settle_rows|take_out|extend|release|release_rows|leave_node|heartbeat_node|tick|dispatch)\(/.exec(
      text,
    )?.[1];
  if (name === undefined) return undefined;
  calls += 1;
  const op = `${actorName}-${process.pid}-${threadId}-${calls}`;
  switch (name) {
    case 'claim':
      return claimOf(op, { node: parameters[0], token: parameters[3] });
    case 'claim_rows':
      return claimRowsOf(op, parameters);
    case 'settle':
      return settleOf(op, parameters);
    case 'settle_rows':
      return settleRowsOf(op, parameters);
    case 'take_out':
      return takeOutOf(parameters);
    case 'release_rows':
      return releaseRowsOf(op, parameters);
    case 'extend':
      return extendOf(op, parameters);
    case 'release':
      return releaseOf(op, parameters);
    case 'leave_node': {
      const leave: HistoryEntry = { type: 'leave', node: String(parameters[0]) };
      // whether it was answered or not, it may have happened
      return { invoked: leave, answered: () => leave, failed: () => undefined };
    }
    case 'tick':
      return tickOf();
    case 'dispatch':
      return dispatchOf(parameters);
    default:
      return beatOf(parameters);
  }
}

function claimOf(op: string, { node, token }: Readonly<Record<'node' | 'token', unknown>>): Heard {
  const known = { node: String(node), token: String(token) };
  return {
    invoked: { type: 'claim', phase: 'invoke', op, ...known },
    answered: (rows) => ({
      type: 'claim',
      phase: 'ok',
      op,
      leases: rows.map((row) => [idOf(row), Number(row['leaseMs'] ?? row['lease_ms'])] as const),
    }),
    failed: (refused) => ({ type: 'claim', phase: refused ? 'fail' : 'unknown', op }),
    leased: known.token,
  };
}

/** The jobs of batches that this thread has claimed, or that were left together, by position and token. */
const batches = new Map<string, readonly string[]>();
const nameOf = (position: unknown, token: unknown): string => `${position as number} ${token as string}`;
const batchOf = (position: unknown, token: unknown): readonly string[] =>
  batches.get(nameOf(position, token)) ?? [];

function claimRowsOf(op: string, [node, , token]: readonly unknown[]): Heard {
  const heard = claimOf(op, { node, token });
  return {
    ...heard,
    answered: (rows) => ({
      type: 'claim',
      phase: 'ok',
      op,
      leases: rows.flatMap(({ position, size, leaseMs, jobs }) => {
        const ids = (JSON.parse((jobs ?? '[]') as string) as readonly (readonly [string])[]).map(
          ([id]) => id,
        );
        if (Number(size) > 1) batches.set(nameOf(position, heard.leased), ids);
        return ids.map((id) => [id, Number(leaseMs)] as const);
      }),
    }),
  };
}

function settleRowsOf(op: string, parameters: readonly unknown[]): Heard {
  const [positions = [], tokens = []] = parameters
    .slice(0, 2)
    .map((text) => String(text).slice(1, -1).split(','));
  const rows = positions.map((position, index) => ({ position, token: tokens[index] ?? '' }));
  const leases = rows.flatMap(({ position, token }) =>
    batchOf(position, token).map((id) => [id, token, 'done'] as const),
  );
  return {
    invoked: { type: 'settle', phase: 'invoke', op, leases },
    answered: ([answer]) => {
      const settled = new Set(((answer?.['settled'] ?? []) as readonly number[]).map(String));
      const verdicts = rows
        .filter(({ position }) => settled.has(position))
        .flatMap(({ position, token }) => batchOf(position, token).map((id) => [id, 'done'] as const));
      return { type: 'settle', phase: 'ok', op, verdicts };
    },
    failed: (refused) => ({ type: 'settle', phase: refused ? 'fail' : 'unknown', op }),
  };
}

/** No lease changes: only where the others are. */
function takeOutOf([position, token, ids]: readonly unknown[]): Heard {
  return {
    answered: ([answer]) => {
      const rest = answer?.['rest'];
      const out = new Set((ids ?? []) as readonly string[]);
      if (typeof rest === 'number')
        batches.set(
          nameOf(rest, token),
          batchOf(position, token).filter((id) => !out.has(id)),
        );
      return undefined;
    },
    failed: () => undefined,
  };
}

function releaseRowsOf(op: string, parameters: readonly unknown[]): Heard {
  const [positions = [], tokens = []] = lists(parameters, 2);
  const leases = positions.flatMap((position, index) => {
    const token = tokens[index] ?? '';
    return batchOf(position, token).map((id) => [id, token] as const);
  });
  return {
    invoked: { type: 'release', phase: 'invoke', op, leases },
    answered: ([answer]) => ({
      type: 'release',
      phase: 'ok',
      op,
      given: answer?.['given'] === positions.length ? leases.map(([id]) => id) : [],
    }),
    failed: (refused) => ({ type: 'release', phase: refused ? 'fail' : 'unknown', op }),
  };
}

function settleOf(op: string, parameters: readonly unknown[]): Heard {
  if (typeof parameters[0] === 'string') return settleDoneOf(op, parameters);
  const [ids = [], tokens = [], outcomes = []] = lists(parameters, 3);
  const leases = ids.map((id, index) => [id, tokens[index] ?? '', outcomes[index] as SettleOutcome] as const);
  return {
    invoked: { type: 'settle', phase: 'invoke', op, leases },
    answered: (rows) => ({
      type: 'settle',
      phase: 'ok',
      op,
      verdicts: rows.map((row) => [idOf(row), row['verdict'] as SettleVerdict] as const),
    }),
    failed: (refused) => ({ type: 'settle', phase: refused ? 'fail' : 'unknown', op }),
  };
}

/** Everything is done: lists are texts, and one row is the answer, which says only what was not accepted as asked. */
function settleDoneOf(op: string, parameters: readonly unknown[]): Heard {
  const [ids = [], tokens = []] = parameters.slice(0, 2).map((text) => String(text).slice(1, -1).split(','));
  const leases = ids.map((id, index) => [id, tokens[index] ?? '', 'done'] as const);
  return {
    invoked: { type: 'settle', phase: 'invoke', op, leases },
    answered: ([answer]) => {
      if (answer === undefined || !('rows' in answer)) throw new Error('an answer has no verdicts');
      const rows = (answer['rows'] as Rows | null) ?? ids.map((id) => ({ id, verdict: 'done' }));
      const verdicts = rows.map((row) => [idOf(row), row['verdict'] as SettleVerdict] as const);
      return { type: 'settle', phase: 'ok', op, verdicts };
    },
    failed: (refused) => ({ type: 'settle', phase: refused ? 'fail' : 'unknown', op }),
  };
}

function extendOf(op: string, parameters: readonly unknown[]): Heard {
  const [ids = [], tokens = [], ms = []] = lists(parameters, 3);
  const leases = ids.map((id, index) => [id, tokens[index] ?? '', Number(ms[index])] as const);
  return {
    invoked: { type: 'extend', phase: 'invoke', op, leases },
    answered: (rows) => ({ type: 'extend', phase: 'ok', op, held: rows.map(idOf) }),
    failed: (refused) => ({ type: 'extend', phase: refused ? 'fail' : 'unknown', op }),
  };
}

function releaseOf(op: string, parameters: readonly unknown[]): Heard {
  const [ids = [], tokens = []] = lists(parameters, 2);
  const leases = ids.map((id, index) => [id, tokens[index] ?? ''] as const);
  return {
    invoked: { type: 'release', phase: 'invoke', op, leases },
    answered: (rows) => ({ type: 'release', phase: 'ok', op, given: rows.map(idOf) }),
    failed: (refused) => ({ type: 'release', phase: refused ? 'fail' : 'unknown', op }),
  };
}

function beatOf([node]: readonly unknown[]): Heard {
  return {
    answered: ([row], sentAt) =>
      row?.['alive'] === true ? { type: 'beat', node: String(node), sentAt } : undefined,
    failed: () => undefined,
  };
}

/** Time at which the last read of the lanes that was answered had been sent; undefined before the first. */
let readAt: number | undefined;

/** Notes when a read was sent, which the next plan tells. */
function tickOf(): Heard {
  const sentAt = monotonicMs();
  return {
    answered: () => {
      readAt = sentAt;
      return undefined;
    },
    failed: () => undefined,
  };
}

function dispatchOf([, , list]: readonly unknown[]): Heard {
  const ids = String(list).slice(1, -1).split(',');
  const silent = { answered: () => undefined, failed: () => undefined };
  if (list === '{}' || readAt === undefined) return silent;
  return { invoked: { type: 'dispatch', ids, readAt }, ...silent };
}
