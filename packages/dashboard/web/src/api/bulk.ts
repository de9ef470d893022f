import type { UseQueryResult } from '@tanstack/react-query';
import { useQuery } from '@tanstack/react-query';
import type { BulkPreview, BulkRequest, BulkRun, BulkRuns } from '../../../src/contract.ts';
import { get, post } from './client.ts';

/** How many jobs it would be now, and which come first. */
export function usePreview(request: BulkRequest): UseQueryResult<BulkPreview> {
  return useQuery<BulkPreview>({
    queryKey: ['bulk', 'preview', request],
    queryFn: () => post<BulkPreview>('bulk/preview', request),
    gcTime: 0,
    retry: false,
  });
}

/** Events bring how far it has come; where they are switched off, or late, it is asked for. */
export function useBulkRun(id: string): UseQueryResult<BulkRun> {
  return useQuery<BulkRun>({
    queryKey: ['bulk', id],
    queryFn: ({ signal }) => get<BulkRun>(`bulk/${encodeURIComponent(id)}`, {}, { signal }),
    refetchInterval: ({ state }) => (state.data?.state === 'running' ? 1_000 : false),
  });
}

/** Those of the process that answers; while one is under way they are asked for again and again. */
export function useBulkRuns(): UseQueryResult<BulkRuns> {
  return useQuery<BulkRuns>({
    queryKey: ['bulk', 'all'],
    queryFn: ({ signal }) => get<BulkRuns>('bulk', {}, { signal }),
    refetchInterval: ({ state }) =>
      state.data?.runs.some((run) => run.state === 'running') === true ? 2_000 : 15_000,
  });
}
