import { PgQueueError } from '../errors.ts';
import { flowLimits } from '../flow/limits.ts';
import type { FlowRow } from '../flow/to-flow-row.ts';
import type { JobRow } from '../job/job.ts';
import { bytesOver, jobLimits } from '../job/validate.ts';
import type { Codec, CodecPlace } from './codec.ts';

/** Place of one of a job's values. */
export function placeOf(
  job: { readonly id: string; readonly task: string },
  field: CodecPlace['field'],
): CodecPlace {
  return { id: job.id, field, name: job.task };
}

/** Returns a text's problem if it is too long once it is encoded; undefined: it is not. */
export function lengthProblem(encoded: string, what: string, bytesMax: number): string | undefined {
  const bytes = bytesOver(bytesMax, [encoded]);
  if (bytes === undefined) return undefined;
  return `${what} has ${bytes} bytes once it is encoded, more than ${bytesMax}: store it elsewhere, and give a reference`;
}

/**
 * Encodes the payload of a job.
 * @throws {PgQueueError} `invalid_job`: it is too long then
 */
export function encodedRow(codec: Codec | undefined, row: JobRow): JobRow {
  if (codec === undefined) return row;
  const payload = codec.encode(row.payload, placeOf(row, 'payload'));
  const problem = lengthProblem(payload, 'payload', jobLimits.payloadBytesMax);
  if (problem === undefined) return { ...row, payload };
  throw new PgQueueError(
    'invalid_job',
    `job of task ${JSON.stringify(row.task)} can't be enqueued: ${problem}`,
    {
      data: { problems: [problem] },
    },
  );
}

/**
 * Encodes the payloads of one batch.
 * @throws {PgQueueError} `invalid_job`: a payload is too long then, or all of them are
 */
export function encodedRows(codec: Codec | undefined, rows: readonly JobRow[]): readonly JobRow[] {
  if (codec === undefined) return rows;
  const encoded = rows.map((row, index) => {
    try {
      return encodedRow(codec, row);
    } catch (error) {
      if (rows.length === 1 || !(error instanceof PgQueueError)) throw error;
      throw new PgQueueError(error.code, `jobs[${index}]: ${error.message}`, {
        data: { ...error.data, index },
      });
    }
  });
  const bytes = encoded.reduce((sum, { payload }) => sum + payload.length, 0);
  if (bytes <= jobLimits.batchBytesMax) return encoded;
  throw new PgQueueError(
    'invalid_job',
    `${bytes} bytes of encoded payloads in one batch, more than ${jobLimits.batchBytesMax}: split it`,
  );
}

/**
 * Encodes the payloads of a flow's jobs.
 * @throws {PgQueueError} `invalid_flow`: a payload is too long then, or all of them are
 */
export function encodedFlow(codec: Codec | undefined, flow: FlowRow): FlowRow {
  if (codec === undefined) return flow;
  const refused = (problem: string): PgQueueError =>
    new PgQueueError('invalid_flow', `flow ${JSON.stringify(flow.name)} can't be started: ${problem}`, {
      data: { problems: [problem] },
    });
  let bytes = 0;
  const steps = flow.steps.map((step) => ({
    ...step,
    jobs: step.jobs.map((row, index) => {
      const payload = codec.encode(row.payload, placeOf(row, 'payload'));
      const what = `step ${JSON.stringify(step.name)}, jobs[${index}]: payload`;
      const problem = lengthProblem(payload, what, jobLimits.payloadBytesMax);
      if (problem !== undefined) throw refused(problem);
      bytes += payload.length;
      return { ...row, payload };
    }),
  }));
  if (bytes <= flowLimits.bytesMax) return { ...flow, steps };
  throw refused(
    `its payloads have ${bytes} bytes once they are encoded, more than ${flowLimits.bytesMax}: enqueue references`,
  );
}

/**
 * Encodes the value (JSON text) of a signal.
 * @param place.id id of the flow
 * @throws {PgQueueError} `invalid_flow`: it is too long then
 */
export function encodedSignal(
  codec: Codec | undefined,
  text: string,
  { id, step }: { readonly id: string; readonly step: string },
): string {
  if (codec === undefined) return text;
  const encoded = codec.encode(text, { id, field: 'signal', name: step });
  const problem = lengthProblem(encoded, 'the value', flowLimits.valueBytesMax);
  if (problem === undefined) return encoded;
  throw new PgQueueError('invalid_flow', `a flow can't be signalled: ${problem}`, {
    data: { problems: [problem] },
  });
}
