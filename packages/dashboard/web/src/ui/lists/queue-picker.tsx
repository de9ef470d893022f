import { Select } from '@mantine/core';
import type { ReactNode } from 'react';
import { useState } from 'react';
import { useLive } from '../../api/live.ts';
import { clipped, visible } from '../../format/text.ts';

interface QueuePickerProps {
  readonly value: string | undefined;
  readonly onChange: (queue: string | undefined) => void;
}

/** Queues of a snapshot: see LiveSnapshot. */
const snapshotQueues = 100;

/** Selects one queue or all; one that a snapshot leaves out by its whole name. */
export function QueuePicker({ value, onChange }: QueuePickerProps): ReactNode {
  const [typed, setTyped] = useState('');
  const shown = useLive()?.queues ?? [];
  const names = new Set(shown.map(({ queue }) => queue));
  if (value !== undefined) names.add(value);
  // the component takes an empty value for no selection, so every name is prefixed with `=`
  const data = [...names].map((queue) => ({
    value: `=${queue}`,
    label: clipped(visible(queue) || '(empty)', 60),
  }));
  // a snapshot has the first queues only: any name may be that of another one
  const isOther = data.every(({ label, value: known }) => label !== typed && known !== `=${typed}`);
  if (shown.length >= snapshotQueues && typed !== '' && isOther)
    data.push({ value: `=${typed}`, label: clipped(visible(typed), 60) });
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
      onSearchChange={setTyped}
      clearButtonProps={{ 'aria-label': 'All queues' }}
      nothingFoundMessage="No such queue"
    />
  );
}
