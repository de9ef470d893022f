import { schemaVersion } from '@pgqueue/postgres/internal';
import { migrationsOf, readServer, readTables } from '@pgqueue/postgres/internal/dashboard';
import type { TableSize } from '@pgqueue/postgres/internal/dashboard';
import type { Doctor, Health, TableHealth } from '../contract.ts';
import type { Desk, Office } from '../desk.ts';
import { Problem } from '../problem.ts';
import { timeOf, warningsOf } from './wire.ts';

export async function healthPage(office: Office, { database }: Desk): Promise<Health> {
  const [status, server, tables, migrations] = await Promise.all([
    office.status(),
    readServer(database),
    readTables(database),
    migrationsOf(database),
  ]);
  if (server === undefined) throw new Problem('database', 'the database says nothing of itself');
  const { leader, oldestSnapshot } = status;
  return {
    at: timeOf(server.now),
    server: server.version,
    leader: { name: leader.leader, epoch: leader.epoch, expiresInMs: leader.expiresInMs },
    oldestSnapshot,
    tables: tables.map(tableOf),
    connections: { used: server.connections, max: server.connectionsMax },
    migrations: {
      version: Math.max(
        0,
        ...migrations.flatMap(({ version, applied }) => (applied === null ? [] : [version])),
      ),
      needs: schemaVersion.needs,
      knows: schemaVersion.knows,
      applied: migrations
        .map(({ version, name, applied }) => ({ version, name, applied: timeOf(applied) }))
        .toReversed(),
    },
    history: {
      days: server.days,
      oldest: timeOf(server.oldestDay),
      inDefault: { count: server.inDefault, kind: server.inDefault === 0 ? 'exact' : 'about' },
    },
    warnings: warningsOf(status),
  };
}

function tableOf({ lastVacuum, lastAnalyze, ...table }: TableSize): TableHealth {
  const [live, dead] = [Number(table.liveRows), Number(table.deadRows)];
  return {
    ...table,
    deadShare: live + dead === 0 ? null : dead / (live + dead),
    lastVacuum: timeOf(lastVacuum),
    lastAnalyze: timeOf(lastAnalyze),
  };
}

/**
 * Runs the doctor without mending, which only the command does. It needs an operator: the database's viewer
 * role may not read all that it checks.
 */
export async function doctorPage({ operator, role }: Desk): Promise<Doctor> {
  if (role !== 'operator') throw new Problem('forbidden', 'only operators can call the doctor');
  const begun = performance.now();
  const { checked, findings, healthy } = await operator.doctor();
  return {
    at: new Date().toISOString(),
    tookMs: Math.round(performance.now() - begun),
    healthy,
    checked,
    findings: findings.map(({ check, says, severity, count, samples, remedy, mendable }) => ({
      check,
      says,
      severity,
      count,
      samples,
      remedy,
      mendable,
    })),
  };
}
