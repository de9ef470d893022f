import { Button, Group, Select } from '@mantine/core';
import type { ReactNode } from 'react';
import type { DeadFilter, DeadReason } from '../../../src/contract.ts';
import { useDead, useDeadGroups, useIsOperator } from '../api/queries.ts';
import { counted } from '../format/numbers.ts';
import { Answer, Empty } from '../ui/frame/answer.tsx';
import { useAsked } from '../ui/frame/confirm.tsx';
import { countText } from '../ui/counts.tsx';
import { useFilters } from '../ui/lists/filters.tsx';
import { Page } from '../ui/frame/page.tsx';
import { Pager } from '../ui/lists/pager.tsx';
import { Panel } from '../ui/frame/panel.tsx';
import { QueuePicker } from '../ui/lists/queue-picker.tsx';
import { TextFilter } from '../ui/lists/text-filter.tsx';
import { TimeRange } from '../ui/lists/time-range.tsx';
import type { DeadAsk } from './dead/dead-bulk.tsx';
import { DeadBulk, DeadDialog } from './dead/dead-bulk.tsx';
import { DeadTable } from './dead/dead-table.tsx';
import { GroupTable } from './dead/group-table.tsx';

const reasons: { value: DeadReason; label: string }[] = [
  { value: 'max_tries', label: 'out of tries' },
  { value: 'crash_limit', label: 'out of crashes' },
  { value: 'gave_up', label: 'gave up' },
];

const names = ['queue', 'task', 'reason', 'group', 'since', 'until', 'after'] as const;

export function DeadPage(): ReactNode {
  const { values, set } = useFilters(names);
  const { after, reason, ...texts } = values;
  const known = reasons.find(({ value }) => value === reason)?.value;
  const filter: DeadFilter = { ...texts, ...(known !== undefined && { reason: known }) };
  const { group, ...ungrouped } = filter;
  const operator = useIsOperator();
  return (
    <Page
      title="Dead letters"
      note="Jobs that will not run again by themselves."
      actions={
        operator ? (
          <DeadBulk filter={filter} what={group === undefined ? 'all that fit' : 'this group'} />
        ) : undefined
      }
    >
      <Group gap="xs" role="search" aria-label="Filter dead letters">
        <QueuePicker value={values.queue} onChange={(queue) => set({ queue })} />
        <TextFilter label="Task" value={values.task} onChange={(task) => set({ task })} />
        <Select
          w={150}
          aria-label="Reason"
          placeholder="Any reason"
          data={reasons}
          value={known ?? null}
          onChange={(value) => set({ reason: value ?? undefined })}
          clearable
          clearButtonProps={{ 'aria-label': 'Any reason' }}
        />
        <TimeRange event="died" since={values.since} until={values.until} set={set} />
      </Group>
      {after === undefined && (
        <Groups filter={ungrouped} chosen={group} onChoose={(chosen) => set({ group: chosen })} />
      )}
      <Jobs filter={filter} after={after} set={set} />
    </Page>
  );
}

interface GroupsProps {
  readonly filter: DeadFilter;
  readonly chosen: string | undefined;
  readonly onChoose: (group: string | undefined) => void;
}

function Groups({ filter, chosen, onChoose }: GroupsProps): ReactNode {
  const query = useDeadGroups(filter);
  const operator = useIsOperator();
  const { asked, ask, close } = useAsked<DeadAsk>();
  const { looked, more = false } = query.data ?? {};
  return (
    <Panel
      title="By error"
      note={
        looked === undefined
          ? undefined
          : `${more ? 'the largest 100 groups ' : ''}of the newest ${countText(looked)} ${looked.count === 1 ? 'job' : 'jobs'}`
      }
      actions={
        chosen !== undefined && (
          <Button size="compact-xs" variant="default" onClick={() => onChoose(undefined)}>
            Show all groups
          </Button>
        )
      }
      flush
    >
      <Answer query={query} rows={4}>
        {({ groups }) =>
          groups.length === 0 ? (
            <Empty title="Nothing is dead">
              Jobs that use up their tries or crashes, or give up, are kept here.
            </Empty>
          ) : (
            <GroupTable
              groups={chosen === undefined ? groups : groups.filter(({ group }) => group === chosen)}
              chosen={chosen}
              onChoose={onChoose}
              onAsk={operator ? ask : undefined}
            />
          )
        }
      </Answer>
      <DeadDialog asked={asked} what="this group" onClose={close} />
    </Panel>
  );
}

interface JobsProps {
  readonly filter: DeadFilter;
  readonly after: string | undefined;
  readonly set: (changes: { readonly after: string | undefined }) => void;
}

function Jobs({ filter, after, set }: JobsProps): ReactNode {
  const query = useDead({ ...filter, ...(after !== undefined && { after }), limit: 50 });
  const operator = useIsOperator();
  const shown = query.data?.items.length;
  return (
    <Panel
      title="Jobs"
      note={shown === undefined ? undefined : `${counted(shown, 'job')} here, the last to die first`}
      flush
    >
      <Answer query={query} rows={6}>
        {({ items, next, lookedBackTo }) => (
          <>
            {items.length === 0 ? (
              <Empty title="No dead job fits" />
            ) : (
              <DeadTable rows={items} operator={operator} />
            )}
            <Pager
              after={after}
              next={next}
              lookedBackTo={lookedBackTo}
              onPage={(cursor) => set({ after: cursor })}
            />
          </>
        )}
      </Answer>
    </Panel>
  );
}
