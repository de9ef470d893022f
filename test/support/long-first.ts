import type { TestSpecification } from 'vitest/node';
import { BaseSequencer } from 'vitest/node';

/** Files of more than a dozen seconds, the longest first: begun last, one of them would keep a worker while the others have nothing to do. */
const long = [
  'docs/docs',
  'conformance/conformance',
  'integration/worker/isolation',
  'integration/limits/properties',
  'integration/security/api',
  'kill-points/kill-points',
  'packed/packed',
  'integration/shared-limits/parts',
  'integration/nodes/found-sooner',
  'integration/clients/python',
  'integration/plans/dashboard-flows',
  'integration/models/flows',
  'integration/models/flows-proof',
  'integration/limits/sweep',
  'integration/nodes/demo',
  'integration/limits/rate',
  'integration/connections/settings-matrix',
  'browser/acts',
  'browser/flows/flows',
  'docs/site',
  'browser/looks',
  'bench/smoke',
  'interleavings/interleavings',
  'integration/failover/synchronous',
  'integration/failover/clocks',
  'integration/failover/patroni',
  'integration/cli/looking',
  'integration/models/jobs',
  'integration/nodes/death',
  'integration/security/sql',
  'integration/plans/hot',
  'integration/models/suspects-properties',
  'integration/scheduler/stuck',
  'integration/nodes/takeover',
  'integration/connections/dead-ends',
  'integration/scheduler/behind',
  'integration/scheduler/leader',
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
