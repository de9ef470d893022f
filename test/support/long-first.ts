import type { TestSpecification } from 'vitest/node';
import { BaseSequencer } from 'vitest/node';

/** Files of more than a dozen seconds, the longest first: begun last, one of them would keep a worker while the others have nothing to do. */
const long = [
  'docs/docs',
  'integration/worker/worker-isolation',
  'integration/limits/limits-properties',
  'integration/security/security-api',
  'kill-points/kill-points',
  'packed/packed',
  'integration/limits/limits-sweep',
  'integration/nodes/demo',
  'integration/limits/limits-rate',
  'integration/connections/settings-matrix',
  'browser/acts',
  'browser/hostile',
  'browser/looks',
  'bench/smoke',
  'interleavings/interleavings',
  'integration/failover/failover-synchronous',
  'integration/failover/failover-clocks',
  'integration/failover/failover-patroni',
  'integration/cli/cli-looking',
  'integration/models/database-model',
  'integration/nodes/node-death',
  'integration/security/security-sql',
  'integration/plans/plans-hot',
  'integration/models/database-suspects-properties',
  'integration/scheduler/scheduler-stuck',
  'integration/nodes/takeover',
  'integration/connections/database-dead-ends',
  'integration/scheduler/scheduler-behind',
  'integration/scheduler/scheduler-leader',
];

export class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const rank = ({ moduleId }: TestSpecification): number => {
      const place = long.findIndex((name) => moduleId.endsWith(`/test/${name}.test.ts`));
      return place < 0 ? long.length : place;
    };
    return sorted.toSorted((a, b) => rank(a) - rank(b));
  }
}
