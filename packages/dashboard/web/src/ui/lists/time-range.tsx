import { Button, Group, Popover, Stack, TextInput } from '@mantine/core';
import type { ReactNode } from 'react';
import type { Given } from './filters.tsx';
import { localTime, viewersZone } from '../../format/times.ts';
import { useNow } from '../clock.ts';
import { IconChevronDown } from '../icons.ts';
import { Faint } from '../text.tsx';

interface TimeRangeProps {
  readonly event: 'created' | 'died';
  /** Note on jobs whose time is not known. */
  readonly note?: string;
  readonly since: string | undefined;
  readonly until: string | undefined;
  readonly set: (changes: Given) => void;
}

const spans = [
  { label: 'Last 15 minutes', ms: 900_000 },
  { label: 'Last hour', ms: 3_600_000 },
  { label: 'Last day', ms: 86_400_000 },
] as const;

/** Filters by time of creation or death: a preset span, or any range. */
export function TimeRange({ event, note, since, until, set }: TimeRangeProps): ReactNode {
  const now = useNow();
  const said = (time: string | undefined): string =>
    time === undefined ? '…' : localTime(new Date(time), now);
  const title = event === 'created' ? 'Created' : 'Died';
  const any = since === undefined && until === undefined;
  return (
    <Popover position="bottom-start" trapFocus shadow="md">
      <Popover.Target>
        <Button variant="default" rightSection={<IconChevronDown size={14} aria-hidden />} fw={400}>
          {any ? `${title}: any time` : `${title}: ${said(since)} to ${said(until)}`}
        </Button>
      </Popover.Target>
      <Popover.Dropdown aria-label={event === 'created' ? 'When jobs were created' : 'When jobs died'}>
        <Stack gap="sm">
          <Group gap="xs">
            {spans.map(({ label, ms }) => (
              <Button
                key={label}
                size="compact-xs"
                variant="default"
                onClick={() => set({ since: new Date(now - ms).toISOString(), until: undefined })}
              >
                {label}
              </Button>
            ))}
            <Button
              size="compact-xs"
              variant="default"
              onClick={() => set({ since: undefined, until: undefined })}
            >
              Any time
            </Button>
          </Group>
          {note !== undefined && <Faint>{note}</Faint>}
          <TimeField label="From" value={since} onChange={(time) => set({ since: time })} />
          <TimeField label="Before" value={until} onChange={(time) => set({ until: time })} />
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}

interface TimeFieldProps {
  readonly label: string;
  readonly value: string | undefined;
  readonly onChange: (value: string | undefined) => void;
}

/** A time field: entered in the viewer's zone, stored in UTC. */
function TimeField({ label, value, onChange }: TimeFieldProps): ReactNode {
  return (
    <TextInput
      type="datetime-local"
      label={label}
      description={viewersZone()}
      value={toLocal(value)}
      onChange={({ currentTarget }) => {
        const at = new Date(currentTarget.value);
        onChange(Number.isNaN(at.getTime()) ? undefined : at.toISOString());
      }}
    />
  );
}

/** Formats a time as the field requires: `2026-11-21T18:40`. */
function toLocal(value: string | undefined): string {
  const at = new Date(value ?? Number.NaN);
  if (Number.isNaN(at.getTime())) return '';
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
