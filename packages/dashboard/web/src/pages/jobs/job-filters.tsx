import { Button, Group, Select } from '@mantine/core';
import { IconX } from '../../ui/icons.ts';
import type { ReactNode } from 'react';
import type { JobStatus } from '../../../../src/contract.ts';
import type { Given } from '../../ui/lists/filters.tsx';
import { QueuePicker } from '../../ui/lists/queue-picker.tsx';
import { TextFilter } from '../../ui/lists/text-filter.tsx';
import { TimeRange } from '../../ui/lists/time-range.tsx';

export const filterNames = [
  'status',
  'queue',
  'task',
  'key',
  'since',
  'until',
  'error',
  'field',
  'value',
  'flow',
  'step',
] as const;

export const statuses: readonly JobStatus[] = [
  'pending',
  'delayed',
  'ready',
  'running',
  'done',
  'dead',
  'cancelled',
  'expired',
];

interface JobFiltersProps {
  readonly values: { readonly [name in (typeof filterNames)[number]]?: string };
  readonly set: (changes: Given) => void;
  readonly any: boolean;
  /** Shows the payload filter, which only operators may use. */
  readonly operator: boolean;
}

export function JobFilters({ values, set, any, operator }: JobFiltersProps): ReactNode {
  return (
    <Group gap="xs" role="search" aria-label="Filter jobs">
      <Select
        data-filter
        w={140}
        aria-label="State"
        placeholder="Any state"
        data={[...statuses]}
        value={values.status ?? null}
        onChange={(status) => set({ status: status ?? undefined })}
        clearable
        clearButtonProps={{ 'aria-label': 'Any state' }}
      />
      <QueuePicker value={values.queue} onChange={(queue) => set({ queue })} />
      <TextFilter label="Task" value={values.task} onChange={(task) => set({ task })} />
      <TextFilter label="Key" value={values.key} onChange={(key) => set({ key })} />
      <TextFilter label="In the error" value={values.error} onChange={(error) => set({ error })} />
      <TimeRange
        event="created"
        note="Jobs whose ids are no UUID v7 don’t tell when, and are left out."
        since={values.since}
        until={values.until}
        set={set}
      />
      {operator && (
        <>
          <TextFilter
            label="Payload field"
            value={values.field}
            onChange={(field) => set({ field, ...(field === undefined && { value: undefined }) })}
          />
          {values.field !== undefined && (
            <TextFilter label="is" value={values.value} onChange={(value) => set({ value })} />
          )}
        </>
      )}
      {values.flow !== undefined && (
        <>
          <TextFilter
            label="Flow"
            width={290}
            value={values.flow}
            onChange={(flow) => set({ flow, ...(flow === undefined && { step: undefined }) })}
          />
          <TextFilter label="Step" value={values.step} onChange={(step) => set({ step })} />
        </>
      )}
      {any && (
        <Button
          variant="subtle"
          color="gray"
          leftSection={<IconX size={14} aria-hidden />}
          onClick={() => set(Object.fromEntries(filterNames.map((name) => [name, undefined])))}
        >
          Clear
        </Button>
      )}
    </Group>
  );
}
