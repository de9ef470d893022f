import { Anchor } from '@mantine/core';
import { IconExternalLink } from '../ui/icons.ts';
import type { ReactNode } from 'react';
import { useParams } from 'wouter';
import type { JobPage as Job } from '../../../src/contract.ts';
import { ApiProblem } from '../api/client.ts';
import { useJob } from '../api/queries.ts';
import { counted } from '../format/numbers.ts';
import { visible } from '../format/text.ts';
import { CopyId } from '../ui/copy-id.tsx';
import { Elsewhere } from '../ui/frame/elsewhere.tsx';
import { Answer, Empty } from '../ui/frame/answer.tsx';
import { Page } from '../ui/frame/page.tsx';
import { Panel } from '../ui/frame/panel.tsx';
import { Status } from '../ui/status.tsx';
import { Name, To } from '../ui/text.tsx';
import { Documents } from './job/documents.tsx';
import { Facts } from './job/facts.tsx';
import { Timeline } from './job/timeline.tsx';
import { Why } from './job/why.tsx';
import classes from './job/job.module.css';
import { SelectionBar } from './jobs/selection-bar.tsx';

export function JobPage(): ReactNode {
  const { id } = useParams<{ id: string }>();
  const query = useJob(id);
  const gone = query.error instanceof ApiProblem && query.error.code === 'not_found';
  const { data } = query;
  return (
    <Page
      title={`Job ${visible(id).slice(-12)}`}
      heading={<Heading id={id} job={data} />}
      actions={
        data !== undefined && data.actions.length > 0 && !gone ? (
          <SelectionBar
            ids={[data.job.id]}
            kinds={data.actions}
            status={data.job.status}
            priority={data.job.priority}
          />
        ) : undefined
      }
    >
      {gone ? (
        <Empty title="There is no such job">
          It never was, was deleted, or its history has been dropped. <To to="/jobs">All jobs</To>
          <Elsewhere id={id} />
        </Empty>
      ) : (
        <Answer query={query} rows={12}>
          {(page) => <Content page={page} />}
        </Answer>
      )}
    </Page>
  );
}

function Heading({ id, job }: { readonly id: string; readonly job: Job | undefined }): ReactNode {
  return (
    <span className={classes.heading}>
      {job === undefined ? 'Job' : <Name text={job.job.task} />}
      {job !== undefined && (
        <span className={classes.status}>
          <Status of={job.job.status} />
        </span>
      )}
      <span className={classes.id}>
        {visible(id)}
        <CopyId id={id} />
      </span>
    </span>
  );
}

function Content({ page }: { readonly page: Job }): ReactNode {
  const { job, timeline, traceUrl, documents, redacted } = page;
  return (
    <div className={classes.columns}>
      <div className={classes.column}>
        <Why id={job.id} status={job.status} />
        <Panel
          title="Timeline"
          note={wordsOf(job)}
          actions={traceUrl !== null && <TraceLink url={traceUrl} />}
        >
          <Timeline entries={timeline} />
        </Panel>
      </div>
      <div className={classes.column}>
        <Facts job={job} />
        <Documents
          documents={documents}
          redacted={redacted}
          progress={job.progress}
          attributes={job.attributes}
        />
      </div>
    </div>
  );
}

/** A link to the trace. Refuses addresses other than http and https. */
function TraceLink({ url }: { readonly url: string }): ReactNode {
  if (!/^https?:\/\//i.test(url)) return null;
  return (
    <Anchor href={url} target="_blank" rel="noopener noreferrer" fz="xs">
      Trace <IconExternalLink size={12} aria-hidden />
    </Anchor>
  );
}

function wordsOf({ tries, crashes }: Job['job']): string | undefined {
  const words = [
    tries > 0 && counted(tries, 'try', 'tries'),
    crashes > 0 && counted(crashes, 'crash', 'crashes'),
  ];
  return words.filter((word) => word !== false).join(', ') || undefined;
}
