import type { ComponentType, ReactNode } from 'react';
import { useLive } from './api/live.ts';
import { useSession } from './api/queries.ts';
import { short } from './format/numbers.ts';
import { visible } from './format/text.ts';
import { AuditPage } from './pages/audit.tsx';
import { DeadPage } from './pages/dead.tsx';
import { FlowPage } from './pages/flow.tsx';
import { FlowsPage } from './pages/flows.tsx';
import { HealthPage } from './pages/health.tsx';
import { JobPage } from './pages/job.tsx';
import { JobsPage } from './pages/jobs.tsx';
import { KeysPage } from './pages/keys.tsx';
import { NodesPage } from './pages/nodes.tsx';
import { OverviewPage } from './pages/overview.tsx';
import { PolicyPage } from './pages/policy.tsx';
import { QueuesPage } from './pages/queues.tsx';
import { SchedulesPage } from './pages/schedules.tsx';
import { countText } from './ui/counts.tsx';
import { Num } from './ui/numbers.tsx';
import { Pages } from './ui/frame/pages.tsx';
import { entries } from './ui/frame/shell.tsx';

const pages: Readonly<Record<string, ComponentType>> = {
  '/': OverviewPage,
  '/keys': KeysPage,
  '/queues': QueuesPage,
  '/jobs': JobsPage,
  '/jobs/:id': JobPage,
  '/flows': FlowsPage,
  '/flows/:id': FlowPage,
  '/nodes': NodesPage,
  '/dead': DeadPage,
  '/schedules': SchedulesPage,
  '/policy': PolicyPage,
  '/health': HealthPage,
  '/audit': AuditPage,
};

export function App(): ReactNode {
  return <Pages entries={entries} who={<Who />} count={EntryCount} pages={pages} home="Go to the overview" />;
}

function Who(): ReactNode {
  const { data } = useSession();
  if (data === undefined) return null;
  const { actor, schema, version } = data;
  return (
    <span title={`schema ${schema}, pgqueue ${version}`}>
      <bdi>{visible(actor.name)}</bdi> · {actor.role}
    </span>
  );
}

/**
 * Count of an entry of the side bar. A separate component, so that snapshots do not render the whole page.
 */
function EntryCount({ to }: { readonly to: string }): ReactNode {
  const live = useLive();
  if (live === undefined) return null;
  const { dead, running } = live.totals;
  const lost = live.nodes.filter(({ state, overdue }) => state === 'lost' || overdue).length;
  if (to === '/jobs' && running.count > 0) return `${short(running.count)} running`;
  if (to === '/flows' && live.flows.open.count > 0) return `${countText(live.flows.open)} open`;
  if (to === '/dead' && dead.count > 0) return <Num value={dead.count} />;
  if (to === '/nodes' && lost > 0) return `${lost} lost`;
  return to === '/health' && live.warnings.length > 0 ? live.warnings.length : null;
}
