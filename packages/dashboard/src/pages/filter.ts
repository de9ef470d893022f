import type { FindFilter, GroupedFilter } from '@pgqueue/postgres/internal/dashboard';
import type { Parameters } from '../http/parameters.ts';
import { Problem } from '../problem.ts';

/** Parses a filter of jobs. @throws {Problem} `forbidden` if a viewer filters by payload */
export function jobFilterIn(
  query: Parameters,
  { seesPayloads }: { readonly seesPayloads: boolean },
): FindFilter {
  const [status, queue, task] = [query.status('status'), query.text('queue', 100), query.text('task', 200)];
  const [key, error] = [query.text('key', 200), query.text('error', 500)];
  const [since, until] = [query.time('since'), query.time('until')];
  const field = fieldIn(query);
  const flow = flowIn(query);
  if (field !== undefined && !seesPayloads) {
    throw new Problem('forbidden', 'only operators can look for what is in payloads');
  }
  return {
    ...(status === undefined ? {} : { status }),
    ...(queue === undefined ? {} : { queue }),
    ...(task === undefined ? {} : { task }),
    ...(key === undefined ? {} : { key }),
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
    ...(error === undefined || error === '' ? {} : { error }),
    ...(field === undefined ? {} : { field }),
    ...(flow === undefined ? {} : { flow }),
  };
}

function flowIn(query: Parameters): FindFilter['flow'] {
  const [id, step] = [query.uuid('flow'), query.text('step', 200)];
  if (id !== undefined) return { id, ...(step === undefined ? {} : { step }) };
  if (step !== undefined) query.fail('step is of a flow: give the flow, too');
  return undefined;
}

function fieldIn(query: Parameters): FindFilter['field'] {
  const [field, value] = [query.text('field', 200), query.text('value', 1_000)];
  if (field === undefined && value === undefined) return undefined;
  if (field === undefined || value === undefined || field === '') {
    query.fail('field and value go together');
    return undefined;
  }
  const path = field.split('.');
  if (path.some((name) => name === '') || path.length > 20)
    query.fail('field must be names with points between: customer.id');
  return { path, value };
}

/** Parses a filter of dead jobs. */
export function deadFilterIn(query: Parameters): GroupedFilter {
  const [queue, task, group] = [query.text('queue', 100), query.text('task', 200), query.text('group', 16)];
  const reason = query.oneOf('reason', ['max_tries', 'crash_limit', 'gave_up']);
  const [since, until] = [query.time('since'), query.time('until')];
  if (group !== undefined && !/^[0-9a-f]{16}$/.test(group)) query.fail('group must be the id of a group');
  return {
    ...(queue === undefined ? {} : { queue }),
    ...(task === undefined ? {} : { task }),
    ...(group === undefined ? {} : { group }),
    ...(reason === undefined ? {} : { reason }),
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
  };
}
