import { Select } from '@mantine/core';
import type { ReactNode } from 'react';
import { useLive } from '../../api/live.ts';
import { clipped, visible } from '../../format/text.ts';

interface QueuePickerProps {
  readonly value: string | undefined;
  readonly onChange: (queue: string | undefined) => void;
}

/** Selects one queue or all. */
export function QueuePicker({ value, onChange }: QueuePickerProps): ReactNode {
  const names = new Set(useLive()?.queues.map(({ queue }) => queue));
  if (value !== undefined) names.add(value);
  // the component takes an empty value for no selection, so every name is prefixed with `=`
  const data = [...names].map((queue) => ({
    value: `=${queue}`,
    label: clipped(visible(queue) || '(empty)', 60),
  }));
  return (
    <Select
      data-filter
      w={180}
      aria-label="Queue"
      placeholder="All queues"
      data={data}
      value={value === undefined ? null : `=${value}`}
      onChange={(chosen) => onChange(chosen === null ? undefined : chosen.slice(1))}
      clearable
      searchable
      clearButtonProps={{ 'aria-label': 'All queues' }}
      nothingFoundMessage="No such queue"
    />
  );
}
