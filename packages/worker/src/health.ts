import type { HealthOptions } from '@pgqueue/postgres';
import type { HealthChecks } from '@pgqueue/postgres/internal';
import { stuckLoops } from '@pgqueue/postgres/internal';
import type { Claimer } from './claim/claim-loop.ts';
import type { Membership } from './node/node.ts';
import type { WorkerSettings } from './options.ts';
import type { Settler } from './settle/settler.ts';
import type { SharedMarks } from './node/thread-protocol.ts';

export interface HealthParts {
  readonly settings: WorkerSettings;
  readonly options: HealthOptions;
  readonly membership: Membership;
  readonly settler: Settler;
  readonly marks: SharedMarks;
  readonly claimer: () => Claimer | undefined;
}

/**
 * Returns the health checks of a worker. Live: its loops make progress, whatever the database does, since a
 * restart would not mend that. Ready: the node is registered and not stopping, a heartbeat arrived lately,
 * and it can claim.
 */
export function workerChecks({
  settings,
  options,
  membership,
  settler,
  marks,
  claimer,
}: HealthParts): HealthChecks {
  const freshMs = Math.min(3 * settings.heartbeatMs, settings.lostAfterMs);
  return {
    metrics: settings.metrics.page,
    live: () => stuckLoops({ claims: claimer(), heartbeat: membership }, options),
    ready: () => {
      if (membership.draining.aborted) return ['it is stopping'];
      if (membership.incarnation() === undefined) return ['the node is not registered'];
      const silentMs = marks.ageMs('beat');
      return [
        ...(silentMs > freshMs ? [`no heartbeat has arrived for ${Math.round(silentMs)} ms`] : []),
        ...(settler.full() ? ['too many settlements wait for the database'] : []),
      ];
    },
  };
}
