import type { Codec } from '@pgqueue/core';
import type { Database, NodeInfo, Operator, Status } from '@pgqueue/postgres';
import {
  checkSchemaVersion,
  identityProblem,
  operatorOf,
  readIdentity,
  shareReading,
} from '@pgqueue/postgres/internal';
import type { Activity } from '@pgqueue/postgres/internal/dashboard';
import { asRole, countFailedFlows, missingRoles, readActivity } from '@pgqueue/postgres/internal/dashboard';
import type { Role, Window } from './contract.ts';
import type { OwnIdentity, Settings } from './options.ts';
import { Problem } from './problem.ts';

/** Database access for the requests of one role. */
export interface Desk {
  readonly role: Role;
  /** Runs as the corresponding database role. */
  readonly database: Database;
  readonly operator: Operator;
  /** Decrypts what this user sees; undefined for viewers. */
  readonly codec: Codec | undefined;
}

/** State shared by all requests. */
export interface Office {
  readonly settings: Settings;
  readonly schema: string;
  readonly deskOf: (role: Role) => Desk;
  /** Access with a time limit of 60 s, for the doctor and bulk actions. */
  readonly patientDeskOf: (role: Role) => Desk;
  /** Shared read of the status, limited to its share of the time. */
  readonly status: () => Promise<Status>;
  /** Shared read of the nodes. */
  readonly nodes: () => Promise<readonly NodeInfo[]>;
  /** Shared count of failed flows, up to 10,001. */
  readonly failedFlows: () => Promise<number>;
  readonly activity: (window: Window, queue: string | undefined) => Promise<Activity>;
  /** Checks schema and roles until that succeeds once. @throws {Problem} `database` */
  readonly ready: () => Promise<void>;
}

/**
 * Highest share of the time spent on reads, however many tabs are open: `live` for the live view, `page` for
 * one page. With planning and a busy machine, both together stay below 1 %.
 */
export const shares = { live: 0.006, page: 0.003 } as const;

/**
 * Longest interval between reads of the live view, in steps of `liveEveryMs`, however slow the database is.
 */
const stepsMost = 4;
const patientMs = 60_000;
/** Failed flows that are counted, as many as open ones. */
export const flowsMax = 10_000;
/** Shared reads of the overview that are kept, by window and queue. */
const sharedMax = 100;

export function openOffice(database: Database, settings: Settings): Office {
  const { databaseRoles, statementTimeoutMs, liveEveryMs } = settings;
  const pace = { everyMs: liveEveryMs * 0.9, mostMs: liveEveryMs * stepsMost, share: shares.live };
  const deskFor = (role: Role, timeoutMs: number): Desk => {
    const own = asRole(database, {
      role: databaseRoles?.[role] ?? null,
      statementTimeoutMs: timeoutMs,
    });
    const codec = seesPayloads({ role }) ? settings.codec : undefined;
    return { role, database: own, operator: operatorOf(own, codec), codec };
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
    failedFlows: shareReading(() => countFailedFlows(desks.viewer.database, flowsMax + 1), pace),
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

/** Repeats the check until it succeeds, and then never again. */
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

async function checkDatabase(
  database: Database,
  { databaseRoles, api, installation }: Settings,
): Promise<void> {
  await checkSchemaVersion(database, database.schema);
  if (installation !== undefined) await checkIdentity(database, installation);
  if (databaseRoles === undefined) return;
  const { viewer, operator, producer } = databaseRoles;
  const missing = await missingRoles(database, [viewer, operator, ...(api === undefined ? [] : [producer])]);
  if (missing.length === 0) return;
  throw new Problem(
    'database',
    `the database has no role ${missing.join(' and no role ')} that the dashboard's user is a member of: run "pgqueue migrate --roles" and grant them to it, or set the option databaseRoles`,
  );
}

/** Checks that a database is that of the installation whose name the pages show. @throws {Problem} `database` */
async function checkIdentity(database: Database, installation: OwnIdentity): Promise<void> {
  const found = await readIdentity(database);
  if (found === undefined && installation.alone) return;
  const problem = identityProblem(installation, found);
  if (problem !== undefined) throw new Problem('database', problem);
}

/** Reports whether this user sees payloads. The database's viewer role cannot read them either. */
export function seesPayloads({ role }: { readonly role: Role }): boolean {
  return role === 'operator';
}
