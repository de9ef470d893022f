import type { QueryFunctionContext, UseQueryResult } from '@tanstack/react-query';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import type {
  AuditPage,
  AuditQuery,
  DeadFilter,
  DeadGroups,
  DeadPage,
  DeadQuery,
  Doctor,
  Explanation,
  FlowPage,
  FlowResults,
  FlowResultsQuery,
  FlowsPage,
  FlowsQuery,
  Found,
  Health,
  Installations,
  JobPage,
  JobsPage,
  JobsQuery,
  Keys,
  KeysQuery,
  NameQuery,
  Nodes,
  Overview,
  OverviewQuery,
  PolicyPage,
  Queues,
  Schedules,
  Session,
} from '../../../src/contract.ts';
import { renewEveryMs } from '../../../src/contract/renewal.ts';
import { get, readSession } from './client.ts';
import type { Asking, Query } from './client.ts';
import { useEvery } from './live.ts';

interface Asked {
  readonly name: keyof typeof renewEveryMs;
  readonly path: string;
  readonly query?: Query;
}

/** Returns the options of a read; it is a renewal if an answer is in the cache. */
function asking({ client, queryKey, signal }: QueryFunctionContext): Asking {
  return { signal, isRenewal: client.getQueryData(queryKey) !== undefined };
}

/** Reads a path, and again at an interval. The previous answer stays visible while the query changes. */
function useAnswer<Answer>({ name, path, query = {} }: Asked): UseQueryResult<Answer> {
  const refetchInterval = useEvery(renewEveryMs[name]);
  return useQuery<Answer>({
    queryKey: [name, path, query],
    queryFn: (context) => get<Answer>(path, query, asking(context)),
    placeholderData: keepPreviousData,
    refetchInterval,
  });
}

export function useSession(): UseQueryResult<Session> {
  return useQuery<Session>({ queryKey: ['session'], queryFn: () => readSession(), staleTime: Infinity });
}

/** Reports whether to offer actions. The server checks the role itself. */
export function useIsOperator(): boolean {
  return useSession().data?.actor.role === 'operator';
}

/** Reads the state of all of several installations. */
export function useInstallations(): UseQueryResult<Installations> {
  return useAnswer({ name: 'installations', path: 'installations' });
}

/** Finds the installation of a job or a flow. */
export function useFound(id: string): UseQueryResult<Found> {
  return useQuery<Found>({
    queryKey: ['find', id],
    queryFn: ({ signal }) => get<Found>(`find/${encodeURIComponent(id)}`, {}, { signal }),
    retry: false,
  });
}

export function useOverview(query: OverviewQuery): UseQueryResult<Overview> {
  return useAnswer({ name: 'overview', path: 'overview', query: { ...query } });
}

export function useKeys(query: KeysQuery): UseQueryResult<Keys> {
  return useAnswer({ name: 'keys', path: 'keys', query: { ...query } });
}

export function useQueues(query: NameQuery): UseQueryResult<Queues> {
  return useAnswer({ name: 'queues', path: 'queues', query: { ...query } });
}

export function useJobs(query: JobsQuery): UseQueryResult<JobsPage> {
  return useAnswer({ name: 'jobs', path: 'jobs', query: { ...query } });
}

export function useNodeJobs(node: string): UseQueryResult<JobsPage> {
  const path = `nodes/${encodeURIComponent(node)}/jobs`;
  return useAnswer({ name: 'node-jobs', path, query: { limit: 20 } });
}

/** Reads one job. Another job's answer is never shown in the meantime. */
export function useJob(id: string): UseQueryResult<JobPage> {
  const refetchInterval = useEvery(renewEveryMs.job);
  return useQuery<JobPage>({
    queryKey: ['job', id],
    queryFn: (context) => get<JobPage>(`jobs/${encodeURIComponent(id)}`, {}, asking(context)),
    refetchInterval: ({ state }) => (state.data?.job.finished === null ? refetchInterval : false),
    retry: false,
  });
}

export function useExplanation(id: string, status: string): UseQueryResult<Explanation> {
  return useQuery<Explanation>({
    queryKey: ['explain', id, status],
    queryFn: (context) => get<Explanation>(`jobs/${encodeURIComponent(id)}/explain`, {}, asking(context)),
    retry: false,
    refetchInterval: useEvery(renewEveryMs.explain),
  });
}

export function useFlows(query: FlowsQuery): UseQueryResult<FlowsPage> {
  return useAnswer({ name: 'flows', path: 'flows', query: { ...query } });
}

/** Steps up to which a flow is read at the shortest interval; larger ones are read less often. */
const smallFlow = 500;
const seldom = 8;

/** Reads one flow with its steps. Another flow's answer is never shown in the meantime. */
export function useFlow(id: string): UseQueryResult<FlowPage> {
  const every = useEvery(renewEveryMs.flow);
  return useQuery<FlowPage>({
    queryKey: ['flow', id],
    queryFn: (context) => get<FlowPage>(`flows/${encodeURIComponent(id)}`, {}, asking(context)),
    refetchInterval: ({ state: { data } }) => {
      if (every === false) return false;
      if (data === undefined) return every;
      const { flow, steps } = data;
      return every * (flow.state === 'open' ? Math.min(seldom, Math.ceil(steps.length / smallFlow)) : seldom);
    },
    retry: false,
  });
}

export function useFlowResults(flow: string, query: FlowResultsQuery): UseQueryResult<FlowResults> {
  const path = `flows/${encodeURIComponent(flow)}/results`;
  return useAnswer({ name: 'flow-results', path, query: { ...query } });
}

export function useNodes(query: NameQuery): UseQueryResult<Nodes> {
  return useAnswer({ name: 'nodes', path: 'nodes', query: { ...query } });
}

export function useDeadGroups(filter: DeadFilter): UseQueryResult<DeadGroups> {
  return useAnswer({ name: 'dead-groups', path: 'dead/groups', query: { ...filter } });
}

export function useDead(query: DeadQuery): UseQueryResult<DeadPage> {
  return useAnswer({ name: 'dead', path: 'dead', query: { ...query } });
}

export function useSchedules(query: NameQuery): UseQueryResult<Schedules> {
  return useAnswer({ name: 'schedules', path: 'schedules', query: { ...query } });
}

export function usePolicy(): UseQueryResult<PolicyPage> {
  return useAnswer({ name: 'policy', path: 'policy' });
}

export function useHealth(): UseQueryResult<Health> {
  return useAnswer({ name: 'health', path: 'health' });
}

/** Runs the doctor, on request only: it reads every table. */
export function useDoctor(): UseQueryResult<Doctor> {
  return useQuery<Doctor>({
    queryKey: ['doctor'],
    queryFn: ({ signal }) => get<Doctor>('health/doctor', {}, { signal }),
    enabled: false,
    retry: false,
  });
}

export function useAudit(query: AuditQuery): UseQueryResult<AuditPage> {
  return useAnswer({ name: 'audit', path: 'audit', query: { ...query } });
}
