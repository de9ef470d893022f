import type { AnyFlow, FlowOptions } from '@pgqueue/core';
import type { Rule, Shape } from '@pgqueue/core/internal';
import {
  aDuration,
  aNumber,
  anything,
  aText,
  oneOf,
  optional,
  optionProblems,
  parseDuration,
  throwProblems,
} from '@pgqueue/core/internal';
import type { Executor } from '@pgqueue/postgres';
import type { Fits } from './expectation.ts';
import { say } from './expectation.ts';

/** Further expectations of a flow that was started. Members that are left out may be anything. */
export interface StartedOptions extends Pick<FlowOptions, 'id' | 'key' | 'deadline'> {
  readonly uniqueKey?: string;
  readonly state?: 'open' | 'done' | 'failed' | 'cancelled';
  /** Exact number of such flows. Default: one or more. */
  readonly times?: number;
  /** Schema of pgqueue in that database. Default: as in `createTestDatabase`, or `pgqueue`. */
  readonly schema?: string;
}

/** A flow with the members that can be expected. */
interface StartedFlow {
  readonly id: string;
  readonly name: string;
  readonly key: string;
  readonly uniqueKey: string | null;
  readonly state: string;
  readonly deadlineMs: number | null;
}

const shape: Shape<StartedOptions> = {
  id: optional(anything),
  key: optional(anything),
  uniqueKey: optional(anything),
  deadline: optional(aDuration),
  state: optional(oneOf('open', 'done', 'failed', 'cancelled')),
  times: optional(aNumber({ min: 0, whole: true })),
  schema: optional(aText()),
};

const aFlowOrName: Rule = {
  expected: 'a flow, made by flow(name), or its name',
  optional: true,
  judge: (value) =>
    (typeof value === 'string' && value !== '') ||
    (typeof value === 'object' && value !== null && 'kind' in value && value.kind === 'pgqueue.flow'),
};

/** Most flows that are read, and that are listed in a message. */
const [flowsMax, shownMax] = [1_000, 10];
/** Tolerance of an expected deadline: it is counted from a moment before that in which the flow was created. */
const deadlineToleranceMs = 1_000;

/** Judge of started flows. */
export interface StartedExpectation {
  /** Reads the flows that the executor sees, and judges them. */
  readonly judge: (
    executor: Executor,
    schema: string,
    fits: Fits,
  ) => Promise<{ readonly pass: boolean; readonly message: () => string }>;
}

/**
 * Checks an expectation.
 * @throws {PgQueueError} `configuration`, with all problems at once
 */
export function startedOf(
  flow: AnyFlow | string | undefined,
  options: StartedOptions = {},
): StartedExpectation {
  throwProblems('configuration', 'toHaveStarted(flow, options)', [
    ...optionProblems({ flow }, { flow: aFlowOrName }),
    ...optionProblems(options, shape),
  ]);
  const name = typeof flow === 'object' ? flow.name : flow;
  const { times } = options;
  return {
    judge: async (executor, schema, fits) => {
      const flows = await readStarted(executor, schema);
      const named = flows.filter((found) => name === undefined || found.name === name);
      const fitting = named.filter((found) => differences(found, options, fits).length === 0);
      const pass = times === undefined ? fitting.length > 0 : fitting.length === times;
      const wanted = wantedText(name, options);
      return {
        pass,
        message: () =>
          pass
            ? [
                `expected ${times === undefined ? 'no' : 'other than'} ${wanted}`,
                '',
                ...listed(fitting),
              ].join('\n')
            : [
                `expected ${times === undefined ? 'a ' : ''}${wanted}`,
                '',
                ...(flows.length === 0
                  ? [
                      'no flow is there. An open transaction is seen by itself only: expect(…) what started it, or commit',
                    ]
                  : [
                      `${flowsText(flows.length)} ${flows.length === 1 ? 'is' : 'are'} there:`,
                      ...listed(named.length === 0 ? flows : named, (found) =>
                        differences(found, options, fits),
                      ),
                    ]),
              ].join('\n'),
      };
    },
  };
}

async function readStarted({ query }: Executor, schema: string): Promise<readonly StartedFlow[]> {
  const rows = await query<{ readonly flow: string }>(
    `select jsonb_build_object('id', f.id, 'name', f.name, 'key', f.key, 'uniqueKey', f.unique_key, 'state', f.state,
       'deadlineMs', extract(epoch from f.deadline - f.created) * 1000)::text as flow
     from ${schema}.flow f order by f.created desc, f.id desc limit ${flowsMax}`,
    [],
  );
  return rows.map(({ flow }) => JSON.parse(flow) as StartedFlow).toReversed();
}

/** Describes how a flow differs from an expectation; empty: it fits. */
function differences(flow: StartedFlow, options: StartedOptions, fits: Fits): readonly string[] {
  const { id, key, uniqueKey, state, deadline } = options;
  const wrong = Object.entries({ id, key, uniqueKey, state })
    .filter(([name, wanted]) => wanted !== undefined && !fits(flow[name as keyof StartedFlow], wanted))
    .map(([name, wanted]) => `${name} is ${say(flow[name as keyof StartedFlow])}, not ${say(wanted)}`);
  const wantedMs = deadline === undefined ? undefined : parseDuration(deadline);
  const { deadlineMs } = flow;
  if (wantedMs !== undefined && Math.abs((deadlineMs ?? Infinity) - wantedMs) > deadlineToleranceMs)
    wrong.push(
      `deadline is ${deadlineMs === null ? 'none' : `${Math.round(deadlineMs)} ms`}, not ${wantedMs} ms`,
    );
  return wrong;
}

function wantedText(name: string | undefined, { times, schema: _schema, ...others }: StartedOptions): string {
  const flows = times === undefined ? 'flow' : flowsText(times);
  const named = name === undefined ? '' : ` of name ${JSON.stringify(name)}`;
  const members = Object.entries(others)
    .filter(([, value]) => value !== undefined)
    .map(([member, value]) => `\n  with ${member} ${say(value)}`);
  return `${flows}${named} to be started${members.join('')}`;
}

function listed(
  flows: readonly StartedFlow[],
  why: (flow: StartedFlow) => readonly string[] = () => [],
): readonly string[] {
  const lines = flows.slice(0, shownMax).flatMap((flow, index) => {
    const { name, id, key, uniqueKey, state } = flow;
    const keys = `${key === '' ? '' : `, key ${say(key)}`}${uniqueKey === null ? '' : `, uniqueKey ${say(uniqueKey)}`}`;
    return [`  ${index + 1}. ${name} (${id}), ${state}${keys}`, ...why(flow).map((text) => `     ${text}`)];
  });
  return flows.length > shownMax ? [...lines, `  … and ${flows.length - shownMax} more`] : lines;
}

function flowsText(count: number): string {
  return count === 1 ? '1 flow' : `${count} flows`;
}
