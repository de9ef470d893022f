import type { QueueSeen } from '@pgqueue/core';
import type { Shape } from '@pgqueue/core/internal';
import { PgQueueError } from '@pgqueue/core';
import { optional, optionProblems, throwProblems } from '@pgqueue/core/internal';
import type { NodeOptions } from './fleet.ts';
import { fleet, queues } from './shapes.ts';
import type { Arrival } from './arrival.ts';
import type { FlowArrival } from './flow-arrival.ts';
import { inOrder } from './workload.ts';

/** A workload in a file: an array of arrivals, jobs or flows, or an object that also has the settings they met. */
export interface WorkloadFile {
  readonly arrivals: readonly (Arrival | FlowArrival)[];
  readonly queues?: Readonly<Record<string, Partial<QueueSeen>>>;
  readonly fleet?: readonly NodeOptions[];
}

/** Rule of each member of a workload file. Arrivals are checked one by one. */
const fileShape: Shape<WorkloadFile> = {
  arrivals: { expected: 'an array of arrivals', judge: Array.isArray },
  queues: optional(queues),
  fleet: optional(fleet),
};

/**
 * Reads a workload in JSON.
 * @throws {PgQueueError} `configuration`, with the path of each wrong member, or all wrong arrivals
 */
export function parseWorkload(text: string): WorkloadFile {
  const value = parseJson(text);
  const file = Array.isArray(value) ? { arrivals: value as unknown[] } : value;
  if (typeof file !== 'object' || file === null) {
    throw new PgQueueError(
      'configuration',
      'a workload is an array of arrivals, or an object that has them as "arrivals"',
    );
  }
  throwProblems('configuration', 'the workload', optionProblems(file, fileShape));
  const { arrivals, queues, fleet } = file as Partial<WorkloadFile> & {
    readonly arrivals: WorkloadFile['arrivals'];
  };
  return {
    arrivals: [...inOrder(arrivals)],
    ...(queues === undefined ? {} : { queues }),
    ...(fleet === undefined ? {} : { fleet }),
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
