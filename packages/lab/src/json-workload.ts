import type { QueueSeen } from '@pgqueue/core';
import { PgQueueError } from '@pgqueue/core';
import type { NodeOptions } from './fleet.ts';
import type { Arrival } from './workload.ts';
import { inOrder } from './workload.ts';

/** A workload in a file: its arrivals alone in an array, or in an object together with what they met. */
export interface WorkloadFile {
  readonly arrivals: readonly Arrival[];
  readonly queues?: Readonly<Record<string, Partial<QueueSeen>>>;
  readonly fleet?: readonly NodeOptions[];
}

/** Reads a workload in JSON. @throws {PgQueueError} `configuration`, naming the first arrival that is wrong */
export function parseWorkload(text: string): WorkloadFile {
  const value = parseJson(text);
  const file = Array.isArray(value) ? { arrivals: value as unknown[] } : value;
  if (typeof file !== 'object' || file === null || !('arrivals' in file) || !Array.isArray(file.arrivals)) {
    throw new PgQueueError(
      'configuration',
      'a workload is an array of arrivals, or an object that has them as "arrivals"',
    );
  }
  const { arrivals, queues, fleet } = file as Partial<WorkloadFile> & {
    readonly arrivals: readonly Arrival[];
  };
  return {
    arrivals: [...inOrder(arrivals)],
    ...(queues === undefined ? {} : { queues: objectOf(queues, 'queues') }),
    ...(fleet === undefined ? {} : { fleet: arrayOf(fleet, 'fleet') }),
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new PgQueueError('configuration', `the workload is no JSON: ${why}`, { cause: error });
  }
}

function objectOf<Value extends object>(value: Value, name: string): Value {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  throw new PgQueueError('configuration', `"${name}" of the workload must be an object`);
}

function arrayOf<Value>(value: readonly Value[], name: string): readonly Value[] {
  const given: unknown = value;
  if (Array.isArray(given)) return value;
  throw new PgQueueError('configuration', `"${name}" of the workload must be an array`);
}
