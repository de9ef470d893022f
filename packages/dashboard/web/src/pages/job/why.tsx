import type { ReactNode } from 'react';
import type { Explanation, JobStatus } from '../../../../src/contract.ts';
import { useExplanation } from '../../api/queries.ts';
import { counted } from '../../format/numbers.ts';
import { visible } from '../../format/text.ts';
import { Answer } from '../../ui/frame/answer.tsx';
import { Panel } from '../../ui/frame/panel.tsx';
import { Faint } from '../../ui/text.tsx';
import { Time } from '../../ui/time.tsx';
import classes from './why.module.css';

const titles: Readonly<Record<JobStatus, string>> = {
  pending: 'Why it waits',
  delayed: 'Why it waits',
  ready: 'Why it waits',
  running: 'What it does',
  done: 'What became of it',
  cancelled: 'What became of it',
  expired: 'What became of it',
  dead: 'Why it is dead',
};

/** Explains why a job waits, as `pgqueue explain` does, in the order in which to resolve the reasons. */
export function Why({ id, status }: { readonly id: string; readonly status: JobStatus }): ReactNode {
  const query = useExplanation(id, status);
  return (
    <Panel title={titles[status]} note={status === 'pending' ? 'as the leading scheduler says' : undefined}>
      <Answer query={query} rows={2}>
        {(explanation) => <Reasons explanation={explanation} />}
      </Answer>
    </Panel>
  );
}

function Reasons({ explanation }: { readonly explanation: Explanation }): ReactNode {
  const { reasons, start, policy, ahead, aheadInOrder } = explanation;
  return (
    <>
      <ol className={classes.reasons}>
        {reasons.map(({ kind, text, until }, index) => (
          <li key={`${index} ${kind}`} data-kind={kind}>
            <bdi>{visible(text)}</bdi>
            {until !== null && (
              <Faint>
                {' '}
                (until <Time at={until} />, <Time at={until} as="ago" />)
              </Faint>
            )}
          </li>
        ))}
      </ol>
      {start !== null && (
        <p className={classes.start}>
          {start.at !== null ? (
            <>
              May start about <Time at={start.at} />, <Time at={start.at} as="ago" />.
            </>
          ) : (
            <>
              {start.blocked
                ? 'It does not start until somebody changes something.'
                : 'When it starts can’t be said.'}
            </>
          )}{' '}
          <Faint>{visible(start.evidence.join('; '))}</Faint>
        </p>
      )}
      <Footnote ahead={ahead} aheadInOrder={aheadInOrder} policy={policy} />
    </>
  );
}

function Footnote({
  ahead,
  aheadInOrder,
  policy,
}: Pick<Explanation, 'ahead' | 'aheadInOrder' | 'policy'>): ReactNode {
  const parts = [
    ahead !== null && `${counted(ahead, 'job')} of its key first`,
    aheadInOrder !== null && `${counted(aheadInOrder, 'job')} of all keys first`,
    policy !== null && `policy ${visible(policy.name)}`,
  ].filter((part) => part !== false);
  if (parts.length === 0) return null;
  return (
    <p className={classes.start}>
      <Faint>{parts.join(' · ')}</Faint>
    </p>
  );
}
