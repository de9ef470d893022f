import type { StoredReport } from '@pgqueue/postgres';
import type { KeyShare, ShadowReport } from '@pgqueue/scheduler';
import { percent, plural } from './format.ts';
import type { Output } from './output.ts';

/** Report on a shadow policy: its plans in one line, and its differences from the live policy as tables. */
export interface ShadowText {
  readonly line: string;
  readonly tables: readonly string[];
}

/**
 * Formats the shadow report. Undefined: no shadow policy runs, or the leader's release has another format.
 */
export function shadowText({ shadow }: StoredReport, output: Output): ShadowText | undefined {
  if (!isShadow(shadow)) return undefined;
  const { policy, snapshots, skipped, failed, both, rankDifference, meanMs } = shadow;
  const apart = rankDifference === null ? '' : `, ${rankDifference.toFixed(1)} places apart on average`;
  const took = meanMs === null ? '' : `, ${meanMs.toFixed(1)} ms each`;
  return {
    line: `${policy}: ${plural(snapshots, 'snapshot')} compared, ${skipped} skipped, ${failed} failed${took}; ${plural(both, 'job')} in both plans${apart}`,
    tables: [differences(shadow, output), shares(shadow, output)].filter((table) => table !== ''),
  };
}

function differences({ liveOnly, shadowOnly }: ShadowReport, output: Output): string {
  const rows = (dispatchedBy: string, counts: Readonly<Record<string, number>>): (string | number)[][] =>
    Object.entries(counts)
      .toSorted(([, a], [, b]) => b - a)
      .map(([reason, jobs]) => [dispatchedBy, reason, jobs]);
  const all = [...rows('live policy', liveOnly), ...rows('shadow', shadowOnly)];
  return all.length === 0 ? '' : output.table(['only by', 'the other held it by', 'jobs'], all);
}

function shares({ keys }: ShadowReport, output: Output): string {
  const differ = keys.filter(({ live, shadow }) => live !== shadow);
  if (differ.length === 0) return '';
  const rows = differ.map(({ queue, key, live, shadow }) => [queue, key, percent(live), percent(shadow)]);
  return output.table(['queue', 'key', 'share live', 'share in shadow'], rows);
}

function isShadow(value: unknown): value is ShadowReport {
  if (typeof value !== 'object' || value === null) return false;
  const { policy, snapshots, skipped, failed, both, liveOnly, shadowOnly, keys, rankDifference, meanMs } =
    value as Partial<Record<keyof ShadowReport, unknown>>;
  const counts = [snapshots, skipped, failed, both];
  return (
    typeof policy === 'string' &&
    counts.every((count) => typeof count === 'number') &&
    [rankDifference, meanMs].every((mean) => mean === null || typeof mean === 'number') &&
    [liveOnly, shadowOnly].every((record) => typeof record === 'object' && record !== null) &&
    Array.isArray(keys) &&
    keys.every(isShare)
  );
}

function isShare(value: unknown): value is KeyShare {
  if (typeof value !== 'object' || value === null) return false;
  const { queue, key, live, shadow } = value as Partial<Record<keyof KeyShare, unknown>>;
  return (
    [queue, key].every((name) => typeof name === 'string') &&
    [live, shadow].every((share) => typeof share === 'number')
  );
}
