import type { ReactNode } from 'react';
import type { Shadow } from '../../../../src/contract.ts';
import { exact, percent } from '../../format/numbers.ts';
import { visible } from '../../format/text.ts';
import { HeldBy } from '../../ui/held.tsx';
import { Num } from '../../ui/numbers.tsx';
import type { Figure } from '../../ui/frame/panel.tsx';
import { Figures, Panel } from '../../ui/frame/panel.tsx';
import { DataTable } from '../../ui/lists/table.tsx';
import { Faint, Name, Nothing } from '../../ui/text.tsx';
import { Span } from '../../ui/time.tsx';
import { Empty } from '../../ui/frame/answer.tsx';

/** Compares the shadow policy with the live one. */
export function ShadowPanel({ shadow }: { readonly shadow: Shadow | null }): ReactNode {
  if (shadow === null) {
    return (
      <Panel title="Shadow">
        <Empty title="No second policy plans beside this one">
          Give the scheduler a shadow policy to see how its plans would differ, before it leads.
        </Empty>
      </Panel>
    );
  }
  return (
    <Panel title="Shadow" note={`${visible(shadow.policy)} plans beside the live policy`}>
      <Figures figures={figuresOf(shadow)} />
      <p>
        <Faint>Only the live policy dispatched, by what the shadow held them with: </Faint>
        <HeldBy held={shadow.liveOnly} />
      </p>
      <p>
        <Faint>Only the shadow would have dispatched: </Faint>
        <HeldBy held={shadow.shadowOnly} />
      </p>
      {shadow.keys.length > 0 && (
        <DataTable
          label="Shares under both policies"
          rows={shadow.keys}
          rowKey={({ queue, key }) => JSON.stringify([queue, key])}
          columns={[
            { name: 'Key', leads: true, cell: ({ key }) => <Name text={key} /> },
            { name: 'Queue', cell: ({ queue }) => <Name text={queue} /> },
            { name: 'Live', align: 'right', cell: ({ live }) => percent(live) },
            { name: 'Shadow', align: 'right', cell: ({ shadow: share }) => percent(share) },
          ]}
        />
      )}
    </Panel>
  );
}

function figuresOf({ snapshots, skipped, failed, both, rankDifference, meanMs }: Shadow): readonly Figure[] {
  return [
    {
      label: 'Snapshots',
      value: <Num value={snapshots} />,
      note: `${exact(skipped)} skipped, ${exact(failed)} failed`,
    },
    { label: 'In both plans', value: <Num value={both} />, note: 'jobs' },
    {
      label: 'Places apart',
      value: rankDifference === null ? <Nothing /> : rankDifference.toFixed(1),
      note: 'on average',
    },
    { label: 'Its plan', value: <Span ms={meanMs} />, note: 'on average' },
  ];
}
