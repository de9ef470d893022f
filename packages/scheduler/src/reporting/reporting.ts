import type { Database } from '@pgqueue/postgres';
import { createExplainResponder } from './explain-responder.ts';
import type { TickReport } from '../tick/tick.ts';
import { createFlowMeter } from './throughput.ts';
import type { Settings } from '../options.ts';
import type { Planner } from '../policy/planner.ts';
import { createReporter } from './report.ts';
import { wantedSlots } from './wanted.ts';

/** Publishes the leader's state: its report for `status`, and its answers to explain questions. */
export interface Reporting {
  /** Question number after which the next tick looks for open explain questions. */
  readonly questionsAfter: () => number;
  /** See {@link ExplainResponder.serverLost}. */
  readonly serverLost: () => void;
  readonly tick: (tick: TickReport) => void;
  /** Call when a term begins. */
  readonly elected: () => void;
  readonly stop: () => Promise<void>;
}

export function startReporting(database: Database, settings: Settings, planner: Planner): Reporting {
  const { observe } = settings;
  const policy = settings.policy.name;
  const flow = createFlowMeter();
  const reporter = createReporter({ database, policy, observe });
  const answers = createExplainResponder({ database, policy, explain: planner.explain, flow, observe });
  return {
    questionsAfter: answers.after,
    serverLost: answers.serverLost,
    tick: (tick) => {
      const { leader, questions, snapshot, dispatched, settled, leftOut } = tick;
      const { held, forecast, durationMs, unreadable } = tick;
      const plan = planner.aside();
      flow.dispatched(dispatched.items.flatMap(({ jobs }) => jobs));
      answers.seen(leader, questions, { snapshot, dispatched, settled, leftOut });
      reporter.tick({
        leader,
        held,
        forecast,
        durationMs,
        dispatched: dispatched.count,
        lanes: snapshot.lanes.length,
        inFlight: tick.flying.count + dispatched.count,
        wanted: () => wantedSlots(database, { ...tick, plan }),
        faults: planner.faults(),
        unreadable,
        shadow: planner.shadow(),
      });
    },
    elected: flow.reset,
    stop: async () => {
      await Promise.all([reporter.stop(), answers.stop()]);
    },
  };
}
