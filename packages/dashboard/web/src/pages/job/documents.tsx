import type { ReactNode } from 'react';
import type { DocumentName, JobDocuments, JsonValue } from '../../../../src/contract.ts';
import { pretty, visible } from '../../format/text.ts';
import { Facts, Panel } from '../../ui/frame/panel.tsx';
import { Faint, Name } from '../../ui/text.tsx';
import classes from './documents.module.css';

interface DocumentsProps {
  readonly documents: JobDocuments | null;
  /** Documents that the server's redact hook changed. */
  readonly redacted: readonly DocumentName[];
  readonly progress: JsonValue;
  readonly attributes: Readonly<Record<string, string | number | boolean | null>>;
}

/** Shows payload, result, checkpoint, progress and attributes as text, since they are untrusted. */
export function Documents({ documents, redacted, progress, attributes }: DocumentsProps): ReactNode {
  const noteOf = (name: DocumentName): string | undefined =>
    redacted.includes(name) ? 'redacted' : undefined;
  const names = Object.entries(attributes);
  return (
    <>
      {progress !== null && (
        <Panel title="Progress" note={noteOf('progress')}>
          <Json value={progress} label="Progress" />
        </Panel>
      )}
      {names.length > 0 && (
        <Panel title="Attributes">
          <Facts
            facts={names.map(([name, value]) => [visible(name), <Name key={name} text={String(value)} />])}
          />
        </Panel>
      )}
      {documents === null ? (
        <Panel title="Payload">
          <Faint>Operators see payloads; you are a viewer.</Faint>
        </Panel>
      ) : (
        <>
          <Panel title="Payload" note={noteOf('payload')}>
            <Json value={documents.payload} label="Payload" />
          </Panel>
          {documents.result !== null && (
            <Panel title="Result" note={noteOf('result')}>
              <Json value={documents.result} label="Result" />
            </Panel>
          )}
          {documents.checkpoint !== null && (
            <Panel title="Checkpoint" note={noteOf('checkpoint')}>
              <Json value={documents.checkpoint} label="Checkpoint" />
            </Panel>
          )}
        </>
      )}
    </>
  );
}

function Json({ value, label }: { readonly value: unknown; readonly label: string }): ReactNode {
  return (
    <pre className={classes.json} tabIndex={0} aria-label={label} role="region" dir="ltr">
      {visible(pretty(value))}
    </pre>
  );
}
