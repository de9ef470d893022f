import { isUuid } from '@pgqueue/core/internal';
import type { Reason } from '@pgqueue/postgres';
import type { Remedies } from '@pgqueue/postgres/internal';
import { reasonText } from '@pgqueue/postgres/internal';
import type { Explanation, Role } from '../contract.ts';
import type { Desk } from '../desk.ts';
import { Problem } from '../problem.ts';
import { timeOf } from './wire.ts';

/** The buttons of the pages. */
const remedies: Readonly<Record<Role, Remedies>> = {
  operator: {
    dead: '“Redrive” puts it back',
    pausedQueue: () => 'resume it on the page of queues',
    silentNode: () => 'a reset on the page of nodes takes its jobs back at once',
  },
  viewer: {
    dead: 'an operator can redrive it',
    pausedQueue: () => 'an operator can resume it',
    silentNode: () => 'an operator can reset it, which takes its jobs back at once',
  },
};

/** Answers as `pgqueue explain` does, but for the remedies: those that the pages offer this user. */
export async function explainPage({ operator, role }: Desk, id: string): Promise<Explanation> {
  if (!isUuid(id)) throw new Problem('bad_request', 'the id of a job is a UUID');
  const { job, reasons, ahead, aheadInOrder, start, policy } = await operator.explain(id);
  return {
    id,
    status: job.status,
    reasons: reasons.map((reason) => ({
      kind: reason.kind,
      text: reasonText(reason, lengthOf, remedies[role]),
      until: untilOf(reason),
    })),
    ahead,
    aheadInOrder,
    start: start === null ? null : { at: timeOf(start.at), blocked: start.blocked, evidence: start.evidence },
    policy: policy === null ? null : { name: policy.name, at: timeOf(policy.at) },
  };
}

function untilOf(reason: Reason): string | null {
  return 'until' in reason && reason.until instanceof Date ? timeOf(reason.until) : null;
}

/** Formats a duration as the command does: `45s`, `3m 20s`, `2h 5m`, `3d 4h`. */
export function lengthOf(ms: number): string {
  if (ms < 0) return `-${lengthOf(-ms)}`;
  if (ms < 1_000) return `${Math.round(ms)}ms`;
  const seconds = Math.floor(ms / 1_000);
  const parts = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3_600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'm'],
    [seconds % 60, 's'],
  ] as const;
  const first = parts.findIndex(([count]) => count > 0);
  return parts
    .slice(first, first + 2)
    .flatMap(([count, unit]) => (count > 0 ? [`${count}${unit}`] : []))
    .join(' ');
}
