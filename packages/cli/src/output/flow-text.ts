import { grouped, waitingSteps, waitingText } from '@pgqueue/postgres/internal';
import type { FlowDetails, FlowInfo, FlowProgress, Page, StepInfo, StepResult } from '@pgqueue/postgres';
import { cutTo, fitted, lengthOf } from './fit.ts';
import { age, oneLine } from './format.ts';

/** Formats a page of flows; the name comes last, since it is cut where a line is too long. */
export function listText({ items, next }: Page<FlowInfo>, width: number): string {
  if (items.length === 0) return 'no flows';
  const rows = items.map(({ id, state, stopping, progress, ageMs, name, key }) => [
    id,
    state === 'open' && stopping !== null ? 'stopping' : state,
    `${progress.stepsEnded}/${progress.steps}`,
    `${ended(progress)}/${progress.added}`,
    progress.dead,
    age(ageMs),
    key === '' ? name : `${name} (${key})`,
  ]);
  const columns = [
    { head: 'id' },
    { head: 'state' },
    { head: 'steps', right: true },
    { head: 'jobs', right: true },
    { head: 'dead', right: true },
    { head: 'age', right: true },
    { head: 'name (key)', cut: true },
  ] as const;
  const more = next === null ? [] : [`more: --after ${next}`];
  return [...fitted(columns, rows, width), ...more].join('\n');
}

function ended({ done, dead, other }: Pick<FlowProgress, 'done' | 'dead' | 'other'>): number {
  return done + dead + other;
}

/** Most steps of a large flow that are shown, unless all are asked for. */
const stepsMax = 100;
const nameMax = 28;
const indent = '  ';

/** Formats a flow with its steps in layers; text is wrapped at `width`. */
export function flowText(
  flow: FlowDetails,
  { all, width }: { readonly all: boolean; readonly width: number },
): string {
  const { steps } = flow;
  const shown = all ? steps : foremost(steps);
  const waits = new Map(waitingSteps(steps).map((waiting) => [waiting.step, waiting]));
  const nameWidth = Math.min(nameMax, Math.max(...shown.map(({ name }) => lengthOf(oneLine(name)))));
  const lines = [...Map.groupBy(shown, ({ layer }) => layer)]
    .toSorted(([a], [b]) => a - b)
    .flatMap(([layer, members]) => [
      `layer ${layer + 1}`,
      ...members.flatMap((step) => {
        const name = cutTo(oneLine(step.name), nameWidth);
        const head = `${indent}${name}${' '.repeat(nameWidth - lengthOf(name))}  ${stateOf(step).padEnd(9)}  `;
        const waiting = waits.get(step.name);
        const text = [
          ...(step.kind === 'jobs' ? [] : [step.kind]),
          ...(waiting === undefined ? endText(step) : [waitingText(waiting, age)]),
        ].join('; ');
        return wrapped(head, oneLine(text), width);
      }),
    ]);
  const hidden = steps.length - shown.length;
  const rest = hidden === 0 ? [] : ['', `${grouped(hidden)} more steps: --all shows them`];
  return [...headOf(flow), '', ...lines, ...rest].join('\n');
}

/** Returns the first steps in their order, those that are not done before the others. */
function foremost(steps: readonly StepInfo[]): readonly StepInfo[] {
  if (steps.length <= stepsMax) return steps;
  const rank = ({ state, outcome }: StepInfo): number => {
    if (outcome === 'failed' || outcome === 'cancelled') return 0;
    if (state === 'open') return 1;
    return state === 'blocked' ? 2 : 3;
  };
  return steps
    .toSorted((a, b) => rank(a) - rank(b))
    .slice(0, stepsMax)
    .toSorted((a, b) => a.step - b.step);
}

function headOf(flow: FlowDetails): readonly string[] {
  const { id, name, key, uniqueKey, state, reason, ageMs, deadline, stopping, waiter, progress } = flow;
  const { steps, stepsEnded, added, dead, other } = progress;
  const keys = [
    ...(key === '' ? [] : [`key ${JSON.stringify(key)}`]),
    ...(uniqueKey === null ? [] : [`unique key ${JSON.stringify(uniqueKey)}`]),
  ];
  const share = added === 0 ? '' : ` (${Math.floor((ended(progress) / added) * 100)}%)`;
  return [
    `flow ${id}`,
    `${name} is ${state === 'open' && stopping !== null ? 'being cancelled' : state}, ${age(ageMs)} old`,
    ...(keys.length === 0 ? [] : [keys.join(', ')]),
    ...(reason === null ? [] : [`reason: ${reason}`]),
    ...(waiter === null ? [] : [`job ${waiter} waits for its end`]),
    ...(deadline === null ? [] : [`deadline ${deadline.toISOString()}`]),
    `${grouped(stepsEnded)} of ${grouped(steps)} steps ended`,
    `${grouped(ended(progress))} of ${grouped(added)} jobs ended${share}, ${grouped(dead)} dead, ${grouped(other)} cancelled or expired`,
  ].map(oneLine);
}

function stateOf({ state, outcome, stopping }: StepInfo): string {
  if (state === 'ended') return outcome ?? state;
  return stopping ? 'stopping' : state;
}

/** Describes the end of a step: the number of its jobs, and those that are not done. */
function endText({ kind, added, dead, other, opened, ended: at, outcome }: StepInfo): readonly string[] {
  const took = opened === null || at === null ? [] : [`in ${age(at.getTime() - opened.getTime())}`];
  if (kind !== 'jobs' || outcome === 'skipped') return took;
  return [
    [
      `${grouped(added)} ${added === 1 ? 'job' : 'jobs'}`,
      ...(dead === 0 ? [] : [`${grouped(dead)} dead`]),
      ...(other === 0 ? [] : [`${grouped(other)} cancelled or expired`]),
      ...took,
    ].join(', '),
  ];
}

/** Breaks a text behind its head into lines of up to `width`; the later ones begin below the text. */
export function wrapped(head: string, text: string, width: number): readonly string[] {
  const begin = lengthOf(head);
  const room = Math.max(20, width - begin);
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && lengthOf(line) + 1 + lengthOf(word) > room) {
      lines.push(line);
      line = '';
    }
    line = line === '' ? word : `${line} ${word}`;
  }
  return [...lines, line].map((part, n) => `${n === 0 ? head : ' '.repeat(begin)}${part}`.trimEnd());
}

/** Formats a page of results, one a line. */
export function resultsText({ items, next }: Page<StepResult>, width: number): string {
  if (items.length === 0) return 'no results';
  const rows = items.map(({ job, outcome, result }) => [job ?? 'signal', outcome, JSON.stringify(result)]);
  const columns = [{ head: 'job' }, { head: 'outcome' }, { head: 'result', cut: true }] as const;
  const more = next === null ? [] : [`more: --after ${next}`];
  return [...fitted(columns, rows, width), ...more].join('\n');
}
