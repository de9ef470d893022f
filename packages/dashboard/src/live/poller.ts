import type { Loop } from '@pgqueue/core/internal';
import { loggedError, retryPauseMs, startLoop } from '@pgqueue/core/internal';
import type { Status } from '@pgqueue/postgres';
import type { Office } from '../desk.ts';
import { problemOf } from '../problem.ts';
import type { Hub } from './hub.ts';
import { snapshotOf } from './snapshot.ts';

/** Steps after which an unchanged snapshot is sent again; the front end reconnects after 12 s of silence. */
const stepsSilent = 2;

/** Reads the status while a client is connected, once for all clients, and sends it. */
export interface Poller {
  readonly stop: () => Promise<void>;
}

export function startPoller(office: Office, hub: Hub): Poller {
  let loop: Loop | undefined;
  let stopped: Promise<unknown> = Promise.resolve();
  hub.onClients((some) => {
    if (some) loop ??= pollOf(office, hub);
    else {
      const last = loop;
      loop = undefined;
      stopped = Promise.all([stopped, last?.stop()]);
    }
  });
  return {
    stop: async () => {
      hub.close();
      await loop?.stop();
      await stopped;
    },
  };
}

function pollOf(office: Office, hub: Hub): Loop {
  const { liveEveryMs: everyMs, logger } = office.settings;
  let told: { readonly status: Status; readonly atMs: number } | undefined;
  return startLoop({
    step: async (signal) => {
      const status = await office.status();
      const now = performance.now();
      if (told?.status !== status || now - told.atMs >= stepsSilent * everyMs) {
        const [nodes, failedFlows] = await Promise.all([office.nodes(), office.failedFlows()]);
        if (signal.aborted) return everyMs;
        told = { status, atMs: now };
        hub.send({ event: 'snapshot', data: snapshotOf(status, { nodes, failedFlows }) });
      }
      return everyMs;
    },
    failed: (error, failures) => {
      told = undefined;
      const problem = problemOf(error);
      if (problem.code === 'internal') {
        logger?.error({ error: loggedError(error) }, 'the live view can not be read');
      }
      hub.send({ event: 'trouble', data: { message: problem.message } });
      return Math.max(everyMs, retryPauseMs(failures));
    },
  });
}
