import { isUuid } from '@pgqueue/core/internal';
import type { StepResult } from '@pgqueue/postgres';
import type { ListedJob } from '@pgqueue/postgres/internal/dashboard';
import { listStepEnds, readFlowNames, readListed } from '@pgqueue/postgres/internal/dashboard';
import type { FlowResult, FlowResults } from '../../contract.ts';
import type { Desk, Office } from '../../desk.ts';
import { seesPayloads } from '../../desk.ts';
import type { Parameters } from '../../http/parameters.ts';
import type { Settings, Shown } from '../../options.ts';
import { Problem } from '../../problem.ts';
import { differs, redacted } from '../redacted.ts';

/** Characters of a job's result in the list. */
const shownMax = 2_000;
const limitMax = 100;

/** Lists the ends of a step's jobs. For a viewer it reads no results, since the database's viewer role cannot. */
export async function flowResults(
  { settings }: Office,
  desk: Desk,
  { id, query }: { readonly id: string; readonly query: Parameters },
): Promise<FlowResults> {
  const [step, limit, after] = [query.text('step', 200), query.limit(limitMax), query.uuid('after')];
  if (step === undefined || step === '') query.fail('step must be the name of a step');
  query.done();
  if (!isUuid(id)) throw new Problem('bad_request', 'the id of a flow is a UUID');
  const page = { limit, ...(after === undefined ? {} : { after }) };
  if (!seesPayloads(desk)) {
    const ends = await listStepEnds(desk.database, { flow: id, step: step ?? '', ...page });
    if (ends === undefined) throw new Problem('not_found', 'there is no such flow, or it has no such step');
    return {
      items: ends.items.map((end) => ({ ...end, result: null, cut: false, redacted: false })),
      next: ends.next,
      seesResults: false,
    };
  }
  const { items, next } = await desk.operator.flows.results(id, step ?? '', page);
  const show = await showing(settings, desk, { flow: id, step: step ?? '', results: items });
  return { items: items.map((item) => show(item)), next, seesResults: true };
}

interface Listed {
  readonly flow: string;
  readonly step: string;
  readonly results: readonly StepResult[];
}

/** Returns what shows a result: with a redact hook, it has read the jobs that the hook is asked about. */
async function showing(
  settings: Settings,
  { database }: Desk,
  { flow, step, results }: Listed,
): Promise<(result: StepResult) => FlowResult> {
  if (settings.redact === undefined)
    return (result) => shownOf(result, redacted(settings, result.result, unasked));
  const ids = results.flatMap(({ job }) => (job === null ? [] : [job]));
  const jobs = new Map((await readListed(database, ids)).map((job) => [job.id, job]));
  const names = ids.length < results.length ? await readFlowNames(database, flow) : undefined;
  return (result) => {
    const { job, result: document } = result;
    if (job === null) {
      const shown = { kind: 'signal', id: flow, task: step, queue: '', key: names?.key ?? '' } as const;
      return shownOf(result, redacted(settings, document, shown));
    }
    return shownOf(result, redactedOf(settings, document, jobs.get(job)));
  };
}

/** The facts of a document when there is no hook to ask. */
const unasked: Shown = { kind: 'result', id: '', task: '', queue: '', key: '' };

/** Hides the result of a job that is no longer known: the hook could not tell what to leave out. */
function redactedOf(settings: Settings, document: unknown, job: ListedJob | undefined): unknown {
  if (document === null) return null;
  if (job === undefined) return { '…': 'not shown: the redact hook can’t be asked, since the job is gone' };
  const { id, task, queue, key } = job;
  const shown: Shown = { kind: 'result', id, task, queue, key };
  return redacted(settings, document, shown);
}

function shownOf({ job, outcome, result }: StepResult, shown: unknown): FlowResult {
  const text = shown === null || shown === undefined ? null : JSON.stringify(shown);
  const cut = job !== null && text !== null && text.length > shownMax;
  return {
    job,
    outcome,
    result: cut ? text.slice(0, shownMax) : text,
    cut,
    redacted: differs(result, shown),
  };
}
