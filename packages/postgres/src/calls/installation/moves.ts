import type { Leader } from '../sweeps.ts';
import type { Target } from '../../connection/target.ts';

/** A move of a key that an installation has noted. */
export interface KeyMove {
  readonly side: 'in' | 'out';
  /** Number of the other installation. */
  readonly peer: number;
  /** Version of the route that the move writes. */
  readonly version: number;
}

/** A move that is under way, with its age. */
export interface OpenMove extends KeyMove {
  readonly key: string;
  /** Milliseconds since a mover called last, give or take 10,000. */
  readonly idleMs: number;
}

/** Jobs of a key in an installation. */
export interface KeyCount {
  /** Neither delayed nor running. */
  readonly waiting: number;
  readonly delayed: number;
  readonly running: number;
  /** Stay there with their flows. */
  readonly stays: number;
}

/** Outcome of a slice in the new home. */
export interface Received {
  readonly jobs: number;
  /** Were there already, by their ids. */
  readonly known: number;
  /** Came without their unique key, which another job there has. */
  readonly freed: number;
}

/** Place in a pass over the jobs of a key, as `hand_over` returns it. */
export type MovePlace = Readonly<Record<string, unknown>>;

/** Jobs that `finish_move` found in the old home; `ended`: none. */
export type MoveLeft = 'ended' | 'slices' | 'waiting' | 'running' | 'delayed';

/** A key and a version of its route: names a move. */
export interface MoveId {
  readonly key: string;
  readonly version: number;
}

/** Lists the moves that are under way in an installation. */
export async function readMoves({ query, schema }: Target): Promise<readonly OpenMove[]> {
  return query<OpenMove>(
    `select key, side, peer::integer as peer, version::float8 as version,
            date_part('epoch', clock_timestamp() - advanced) * 1000 as "idleMs"
     from ${schema}.key_move where opened is null order by key limit 10000`,
    [],
  );
}

/** Calls a function of a move, and returns its answer. Numbers go as texts, which each driver leaves alone. */
async function call<Answer>(
  { query, schema }: Target,
  name: string,
  given: readonly (readonly [value: string | number | boolean | null, type: string])[],
): Promise<Answer> {
  const parameters = given.map(([, type], index) => `$${index + 1}::text::${type}`).join(', ');
  const [row] = await query<{ readonly answer: Answer }>(
    `select ${schema}.${name}(${parameters}) as answer`,
    given.map(([value]) => (value === null ? null : String(value))),
  );
  return row?.answer as Answer;
}

const idOf = ({ key, version }: MoveId) => [[key, 'text'] as const, [version, 'bigint'] as const] as const;

/** Notes a move in the old home; resolves to the one that stands. Null: the version is no longer new. */
export function claimMove(target: Target, { key, version }: MoveId, to: number): Promise<KeyMove | null> {
  return call(target, 'claim_move', [
    [key, 'text'],
    [to, 'integer'],
    [version, 'bigint'],
  ]);
}

/** Takes a claim back; resolves to false if its move has begun. */
export function dropClaim(target: Target, id: MoveId): Promise<boolean> {
  return call(target, 'drop_claim', idOf(id));
}

/** Holds a key in its new home; resolves to the number that its jobs there come behind, as a text. */
export async function holdKey(target: Target, { key, version }: MoveId, from: number): Promise<string> {
  return String(
    await call(target, 'hold_key', [
      [key, 'text'],
      [from, 'integer'],
      [version, 'bigint'],
    ]),
  );
}

/** Has the old home refuse enqueues of a key. @param seq answer of {@link holdKey} */
export function leaveKey(target: Target, id: MoveId, seq: string): Promise<void> {
  return call(target, 'leave_key', [...idOf(id), [seq, 'bigint']]);
}

/** Takes one slice of jobs out of the old home's QUEUE. The SQL function says what the options mean. */
export function handOver(
  target: Target,
  id: MoveId,
  options: { readonly after: MovePlace | null; readonly jobsMax: number; readonly last: boolean },
): Promise<{ readonly jobs: number; readonly next: MovePlace | null }> {
  const { after, jobsMax, last } = options;
  return call(target, 'hand_over', [
    ...idOf(id),
    [after === null ? null : JSON.stringify(after), 'jsonb'],
    [jobsMax, 'integer'],
    [last, 'boolean'],
  ]);
}

/** A slice on its way. `jobs`: JSON that goes to the new home as it is. */
export interface Slice {
  readonly slice: string;
  readonly jobs: string;
}

/** Reads a slice that has not been forgotten; undefined: there is none. */
export async function nextSlice({ query, schema }: Target, key: string): Promise<Slice | undefined> {
  // as texts: a number in a payload may have more digits than JavaScript's
  const [row] = await query<{ readonly slice: string | null; readonly jobs: string | null }>(
    `select slice::text as slice, jobs from ${schema}.next_slice($1::text)`,
    [key],
  );
  const { slice = null, jobs = null } = row ?? {};
  return slice === null || jobs === null ? undefined : { slice, jobs };
}

/** Puts a slice into the new home's QUEUE, once. */
export function receiveJobs(target: Target, id: MoveId, { slice, jobs }: Slice): Promise<Received> {
  return call(target, 'receive_jobs', [...idOf(id), [slice, 'uuid'], [jobs, 'json']]);
}

/** Forgets a slice in the old home, once the new one has it. */
export function forgetSlice(target: Target, key: string, { slice }: Slice): Promise<void> {
  return call(target, 'forget_slice', [
    [key, 'text'],
    [slice, 'uuid'],
  ]);
}

/** Ends a move in the old home, if nothing is left there. */
export function finishMove(target: Target, id: MoveId): Promise<MoveLeft> {
  return call(target, 'finish_move', idOf(id));
}

/** Says in the new home that the move is over; resolves to false if that was done. */
export function openKey(target: Target, id: MoveId): Promise<boolean> {
  return call(target, 'open_key', idOf(id));
}

/** Ends the holds of keys whose moves are over. */
export async function endHolds(
  { query, schema }: Target,
  { leader, epoch }: Leader,
  keys: readonly string[],
): Promise<void> {
  await query(`select ${schema}.end_holds($1::text, $2::text::bigint, $3::text[])`, [
    leader,
    String(epoch),
    keys,
  ]);
}

/** Counts the jobs of a key. Reads all jobs. */
export function countKey(target: Target, key: string): Promise<KeyCount> {
  return call(target, 'count_key', [[key, 'text']]);
}

const keysMax = 100_000;

/** Lists keys that have jobs, in order behind one, up to 100,000, with their numbers of jobs. Reads all jobs. */
export async function keysHere(
  { query, schema }: Target,
  after: string,
): Promise<readonly { readonly key: string; readonly jobs: number }[]> {
  return query<{ readonly key: string; readonly jobs: number }>(
    `select key, jobs::float8 as jobs from ${schema}.keys_here($1::text, $2::text::integer)`,
    [after, String(keysMax)],
  );
}
