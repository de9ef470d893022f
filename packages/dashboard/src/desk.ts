import type { Database, NodeInfo, Operator, Status } from '@pgqueue/postgres';
import { checkSchemaVersion, operatorOf, shareReading } from '@pgqueue/postgres';
import type { Activity } from '@pgqueue/postgres/dashboard';
import { asRole, missingRoles, readActivity } from '@pgqueue/postgres/dashboard';
import type { Role, Window } from './contract.ts';
import type { Settings, User } from './options.ts';
import { Problem } from './problem.ts';

/** What a request of one role works with. */
export interface Desk {
  readonly role: Role;
  /** As that role of the database. */
  readonly database: Database;
  readonly operator: Operator;
}

/** What all requests share. */
export interface Office {
  readonly settings: Settings;
  readonly schema: string;
  readonly deskOf: (role: Role) => Desk;
  /** For what takes longer than a page may: the doctor, bulk actions. */
  readonly patientDeskOf: (role: Role) => Desk;
  /** One reading for everyone, within its share of the time. */
  readonly status: () => Promise<Status>;
  /** The same for nodes. */
  readonly nodes: () => Promise<readonly NodeInfo[]>;
  readonly activity: (window: Window, queue: string | undefined) => Promise<Activity>;
  /** Once: whether schema and roles are there. @throws {Problem} `database` */
  readonly ready: () => Promise<void>;
}

/**
 * So much of the time is spent on reading at most, however many tabs are open: with what planning and
 * a busy machine add, together less than a hundredth, for what all tabs are told and for the page that they show.
 */
export const shares = { live: 0.006, page: 0.003 } as const;

/** However long the database takes, the live view is not silent for longer than so many of its steps. */
const stepsMost = 4;
const patientMs = 60_000;
/** Readings of single queues that are kept. */
const sharedMax = 100;

export function openOffice(database: Database, settings: Settings): Office {
  const { databaseRoles, statementTimeoutMs, liveEveryMs } = settings;
  const pace = { everyMs: liveEveryMs * 0.9, mostMs: liveEveryMs * stepsMost, share: shares.live };
  const deskFor = (role: Role, timeoutMs: number): Desk => {
    const own = asRole(database, {
      role: databaseRoles?.[role] ?? null,
      statementTimeoutMs: timeoutMs,
    });
    return { role, database: own, operator: operatorOf(own) };
  };
  const desks = {
    viewer: deskFor('viewer', statementTimeoutMs),
    operator: deskFor('operator', statementTimeoutMs),
  };
  const patient = { viewer: deskFor('viewer', patientMs), operator: deskFor('operator', patientMs) };
  const shared = new Map<string, () => Promise<Activity>>();
  return {
    settings,
    schema: database.schema,
    deskOf: (role) => desks[role],
    patientDeskOf: (role) => patient[role],
    status: shareReading(() => desks.viewer.operator.status(), pace),
    nodes: shareReading(() => desks.viewer.operator.nodes.list(), pace),
    activity: (window, queue) => {
      const name = JSON.stringify([window, queue ?? null]);
      const known = shared.get(name);
      if (known !== undefined) return known();
      if (shared.size >= sharedMax) shared.clear();
      const reading = shareReading(
        () => readActivity(desks.viewer.database, { ...spanOf(window), ...ofQueue(queue) }),
        { ...pace, share: shares.page },
      );
      shared.set(name, reading);
      return reading();
    },
    ready: once(() => checkDatabase(database, settings)),
  };
}

function ofQueue(queue: string | undefined): { readonly queue?: string } {
  return queue === undefined ? {} : { queue };
}

function spanOf(window: Window): Omit<Parameters<typeof readActivity>[1], 'queue'> {
  const shown = { queuesMax: 101, histogramsMax: 30 };
  return window === 'hour' ? { grain: 60, buckets: 60, ...shown } : { grain: 900, buckets: 96, ...shown };
}

/** Until it succeeds; then never again. */
function once(check: () => Promise<void>): () => Promise<void> {
  let passed: Promise<void> | undefined;
  return () => {
    passed ??= check().catch((error: unknown) => {
      passed = undefined;
      throw error;
    });
    return passed;
  };
}

async function checkDatabase(database: Database, { databaseRoles }: Settings): Promise<void> {
  await checkSchemaVersion(database, database.schema);
  if (databaseRoles === undefined) return;
  const missing = await missingRoles(database, [databaseRoles.viewer, databaseRoles.operator]);
  if (missing.length === 0) return;
  throw new Problem(
    'database',
    `the database has no role ${missing.join(' and no role ')} that the dashboard's user is a member of: run "pgqueue migrate --roles" and grant them to it, or set the option databaseRoles`,
  );
}

/** Whether this user sees payloads: the database's viewer does not either. */
export function seesPayloads({ role }: Pick<User, 'role'>): boolean {
  return role === 'operator';
}
