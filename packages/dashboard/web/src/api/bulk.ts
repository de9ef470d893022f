import type { UseQueryResult } from '@tanstack/react-query';
import { useQuery } from '@tanstack/react-query';
import type { BulkPreview, BulkRequest, BulkRun, BulkRuns } from '../../../src/contract.ts';
import { get, post } from './client.ts';

/** Previews a bulk action: the number of jobs, and the first of them. */
export function usePreview(request: BulkRequest): UseQueryResult<BulkPreview> {
  return useQuery<BulkPreview>({
    queryKey: ['bulk', 'preview', request],
    queryFn: () => post<BulkPreview>('bulk/preview', request),
    gcTime: 0,
    retry: false,
  });
}

/**
 * Follows a bulk action. Events deliver its progress; it is also polled every second, since events may be
 * paused or late.
 */
export function useBulkRun(id: string): UseQueryResult<BulkRun> {
  return useQuery<BulkRun>({
    queryKey: ['bulk', id],
    queryFn: ({ signal }) => get<BulkRun>(`bulk/${encodeURIComponent(id)}`, {}, { signal }),
    refetchInterval: ({ state }) => (state.data?.state === 'running' ? 1_000 : false),
  });
}

/** Lists the bulk actions of the process that answers: every 2 s while one is running, else every 15 s. */
export function useBulkRuns(): UseQueryResult<BulkRuns> {
  return useQuery<BulkRuns>({
    queryKey: ['bulk', 'all'],
    queryFn: ({ signal }) => get<BulkRuns>('bulk', {}, { signal }),
    refetchInterval: ({ state }) =>
      state.data?.runs.some((run) => run.state === 'running') === true ? 2_000 : 15_000,
  });
}
