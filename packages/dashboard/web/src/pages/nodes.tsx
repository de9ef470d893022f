import { Button } from '@mantine/core';
import type { ReactNode } from 'react';
import type { LiveSnapshot, NodeAction, NodeActionResult, NodeRow, Nodes } from '../../../src/contract.ts';
import { useAction } from '../api/actions.tsx';
import { useLive } from '../api/live.ts';
import { useIsOperator, useNodes } from '../api/queries.ts';
import { counted } from '../format/numbers.ts';
import { visible } from '../format/text.ts';
import { Answer, Empty } from '../ui/frame/answer.tsx';
import { Confirm, useAsked } from '../ui/frame/confirm.tsx';
import { useFilters } from '../ui/lists/filters.tsx';
import { Page } from '../ui/frame/page.tsx';
import { Panel } from '../ui/frame/panel.tsx';
import { Meter } from '../ui/charts/meter.tsx';
import { Mark, Status } from '../ui/status.tsx';
import type { Column } from '../ui/lists/table.tsx';
import { DataTable } from '../ui/lists/table.tsx';
import { TextFilter } from '../ui/lists/text-filter.tsx';
import { LinkButton, Name } from '../ui/text.tsx';
import { Span } from '../ui/time.tsx';
import { NodeDetails } from './nodes/node-details.tsx';

export function NodesPage(): ReactNode {
  const { values, set } = useFilters(['name']);
  const query = useNodes(values);
  return (
    <Page
      title="Nodes"
      note="A node is one worker process. A lost node’s jobs go back by themselves; a reset takes them back at once."
      actions={<TextFilter label="Part of the name" value={values.name} onChange={(name) => set({ name })} />}
    >
      <Panel
        title="All nodes"
        note={
          query.data?.more === true
            ? 'the first 500, live ones first'
            : 'live ones first, ended ones for a day'
        }
        flush
      >
        <Answer query={query}>
          {(answer) =>
            answer.nodes.length === 0 ? (
              <Empty
                title={
                  values.name === undefined ? 'No node has ever been here' : 'No node has that in its name'
                }
              >
                Start one with “pgqueue worker”.
              </Empty>
            ) : (
              <NodeTable nodes={answer} />
            )
          }
        </Answer>
      </Panel>
    </Page>
  );
}

/** Updates the nodes from the newest snapshot, unless the answer is newer. */
function present({ at, nodes }: Nodes, live: LiveSnapshot | undefined): readonly NodeRow[] {
  if (live === undefined || live.at < at) return nodes;
  const known = new Map(live.nodes.map((node) => [node.id, node]));
  return nodes.map((node) => ({ ...node, ...known.get(node.id) }));
}

function NodeTable({ nodes }: { readonly nodes: Nodes }): ReactNode {
  const { values, set } = useFilters(['node']);
  const operator = useIsOperator();
  const live = useLive();
  const { asked, ask, close } = useAsked<NodeRow>();
  const reset = useAction<NodeAction, NodeActionResult>({
    path: 'actions/node',
    tell: ({ ready, dead, cancelled }, { node }) => ({
      message: `Node ${visible(node)} reset: ${counted(ready, 'job')} ready for others${dead > 0 ? `, ${dead} dead` : ''}${cancelled > 0 ? `, ${cancelled} cancelled` : ''}`,
    }),
  });
  const opens = opener(values.node, (node) => set({ node }));
  return (
    <>
      <DataTable
        label="Nodes"
        columns={[opens, ...columns, ...(operator ? [resetButton(ask)] : [])]}
        rows={present(nodes, live)}
        rowKey={({ id }) => id}
        marked={({ id }) => id === values.node}
        below={(node) => (node.id === values.node ? <NodeDetails node={node} /> : undefined)}
      />
      <Confirm
        opened={asked !== undefined}
        onClose={close}
        onConfirm={() => {
          if (asked !== undefined) reset.run({ node: asked.id, action: 'reset' });
        }}
        title={`Reset node ${visible(asked?.id ?? '')}?`}
        verb="Reset the node"
      >
        It holds {counted(asked?.leases ?? 0, 'job')}. All of them go back, to be run by others, and each
        counts a crash. What the process says later is refused; if it still lives, it stops.
      </Confirm>
    </>
  );
}

function opener(open: string | undefined, onOpen: (node: string | undefined) => void): Column<NodeRow> {
  return {
    name: 'Node',
    leads: true,
    cell: ({ id }) => (
      <LinkButton expanded={open === id} onClick={() => onOpen(open === id ? undefined : id)}>
        <Name text={id} max={80} />
      </LinkButton>
    ),
  };
}

const columns: readonly Column<NodeRow>[] = [
  {
    name: 'State',
    tight: true,
    cell: ({ state, overdue }) => <Status of={overdue && state === 'alive' ? 'overdue' : state} />,
  },
  { name: 'Slots in use', cell: ({ slotsInUse, slots }) => <Meter value={slotsInUse} max={slots} /> },
  { name: 'Heartbeat', align: 'right', cell: (node) => <Heartbeat node={node} /> },
  { name: 'Started', align: 'right', cell: ({ ageMs }) => <Ago ms={ageMs} /> },
  { name: 'Pool', minor: true, cell: ({ pool }) => <Name text={pool} max={40} /> },
  { name: 'Tasks', align: 'right', cell: ({ tasks }) => tasks.length },
  { name: 'Version', minor: 'very', cell: ({ software }) => <Name text={software} max={40} /> },
];

/**
 * Age of a heartbeat above which it is marked, in milliseconds. Nodes beat every few seconds; the mark warns
 * before the node counts as lost.
 */
const silentMs = 15_000;

function Heartbeat({ node: { state, heartbeatAgeMs } }: { readonly node: NodeRow }): ReactNode {
  const ago = <Ago ms={heartbeatAgeMs} />;
  const silent = (state === 'alive' || state === 'draining') && heartbeatAgeMs > silentMs;
  return silent ? <Mark tone="warn">{ago}</Mark> : ago;
}

function Ago({ ms }: { readonly ms: number }): ReactNode {
  return (
    <>
      <Span ms={ms} /> ago
    </>
  );
}

/** Reports whether a reset would do anything: end the node, or take back what it holds. */
function canReset({ state, leases }: NodeRow): boolean {
  return state === 'alive' || state === 'draining' || leases > 0;
}

function resetButton(ask: (node: NodeRow) => void): Column<NodeRow> {
  return {
    name: 'Actions',
    silent: true,
    tight: true,
    cell: (node) =>
      canReset(node) && (
        <Button
          size="compact-xs"
          variant="default"
          onClick={() => ask(node)}
          aria-label={`Reset node ${visible(node.id)}`}
        >
          Reset…
        </Button>
      ),
  };
}
