import type { ReactNode } from 'react';
import type { AttemptError, TimelineEntry } from '../../../../src/contract.ts';
import { clipped, visible } from '../../format/text.ts';
import { unreachable } from '../../format/unreachable.ts';
import { to } from '../../ui/lists/filters.tsx';
import type { Tone } from '../../ui/status.tsx';
import { Faint, Name, To } from '../../ui/text.tsx';
import { Span, Time } from '../../ui/time.tsx';
import classes from './timeline.module.css';

/** Shows the events of a job's life, the first on top. */
export function Timeline({ entries }: { readonly entries: readonly TimelineEntry[] }): ReactNode {
  return (
    <ol className={classes.timeline}>
      {entries.map((entry, index) => (
        <li key={index} data-tone={tones[entry.kind]}>
          <Step entry={entry} />
        </li>
      ))}
    </ol>
  );
}

const tones: Readonly<Record<TimelineEntry['kind'], Tone>> = {
  created: 'quiet',
  due: 'quiet',
  dispatched: 'quiet',
  failed: 'bad',
  running: 'accent',
  done: 'good',
  cancelled: 'quiet',
  expired: 'warn',
  dead: 'bad',
};

function Step({ entry }: { readonly entry: TimelineEntry }): ReactNode {
  return (
    <>
      <div className={classes.line}>
        <b>{titleOf(entry)}</b>
        {'node' in entry && entry.node !== null && (
          <span>
            on{' '}
            <To to={to('/nodes', { node: entry.node })}>
              <Name text={entry.node} max={60} />
            </To>
          </span>
        )}
        {'durationMs' in entry && entry.durationMs !== null && (
          <span>
            {entry.kind === 'running' ? 'for' : 'after'} <Span ms={entry.durationMs} />
          </span>
        )}
        <span className={classes.at}>
          <Time at={entry.at} />
        </span>
      </div>
      <Detail entry={entry} />
    </>
  );
}

function titleOf(entry: TimelineEntry): string {
  switch (entry.kind) {
    case 'created':
      return 'Enqueued';
    case 'due':
      return 'Due';
    case 'dispatched':
      return 'Scheduled';
    case 'failed':
      return `Attempt ${entry.attempt} ${failures[entry.error.kind]}`;
    case 'running':
      return `Attempt ${entry.attempt} runs`;
    case 'dead':
      return `Dead${entry.reason === null ? '' : `: ${entry.reason.replaceAll('_', ' ')}`}`;
    case 'done':
    case 'cancelled':
    case 'expired':
      return `${entry.kind.charAt(0).toUpperCase()}${entry.kind.slice(1)}`;
    default:
      return unreachable(entry);
  }
}

const failures: Readonly<Record<AttemptError['kind'], string>> = {
  error: 'failed',
  timeout: 'timed out',
  crash: 'was lost with its node',
  invalid: 'refused its payload',
};

function Detail({ entry }: { readonly entry: TimelineEntry }): ReactNode {
  switch (entry.kind) {
    case 'dispatched':
      return entry.position === null ? null : <Faint>place {entry.position} in the order</Faint>;
    case 'running':
      return (
        <Faint>
          {entry.leaseEnds !== null && (
            <>
              lease until <Time at={entry.leaseEnds} />
            </>
          )}
          {entry.cancelAsked !== null && (
            <>
              , cancellation asked for at <Time at={entry.cancelAsked} />
            </>
          )}
        </Faint>
      );
    case 'failed':
      return <Failure error={entry.error} />;
    case 'created':
    case 'due':
    case 'done':
    case 'cancelled':
    case 'expired':
    case 'dead':
      return null;
    default:
      return unreachable(entry);
  }
}

const messageMax = 4_000;
const stackMax = 20_000;

function Failure({ error: { name, message, stack } }: { readonly error: AttemptError }): ReactNode {
  return (
    <div className={classes.error}>
      <p>
        {name !== null && <b>{visible(name)}: </b>}
        <bdi>{clipped(visible(message), messageMax)}</bdi>
      </p>
      {stack !== null && (
        <details>
          <summary>Stack</summary>
          <pre tabIndex={0} dir="ltr">
            {clipped(visible(stack), stackMax)}
          </pre>
        </details>
      )}
    </div>
  );
}
