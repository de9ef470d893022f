import { Button, Group, NumberInput, TextInput } from '@mantine/core';
import type { ReactNode } from 'react';
import { useState } from 'react';
import type { QueueAction, QueueRow } from '../../../../src/contract.ts';
import type { Action } from '../../api/actions.tsx';
import { visible } from '../../format/text.ts';
import type { Draft, Field } from './settings.ts';
import { changesOf, draftOf, fields } from './settings.ts';
import classes from './settings-form.module.css';

interface SettingsFormProps {
  readonly row: QueueRow;
  readonly action: Action<QueueAction>;
  readonly onClose: () => void;
}

/** Form for a queue's settings, below its row in the table. An empty field means no limit. */
export function SettingsForm({ row: { queue, settings }, action, onClose }: SettingsFormProps): ReactNode {
  const [before] = useState(() => draftOf(settings));
  const [draft, setDraft] = useState(before);
  const changes = changesOf(before, draft);
  const change = (part: Partial<Draft>): void => setDraft((now) => ({ ...now, ...part }));
  return (
    <form
      aria-label={`Settings of queue ${visible(queue)}`}
      onSubmit={(event) => {
        event.preventDefault();
        action.run({ queue, settings: changes });
      }}
      onKeyDown={({ key }) => {
        if (key === 'Escape') onClose();
      }}
    >
      <div className={classes.fields}>
        {fields.map((field, index) => (
          <NumberField
            key={field.name}
            field={field}
            value={draft[field.name]}
            onChange={(value) => change({ [field.name]: value })}
            focus={index === 0}
          />
        ))}
        <TextInput
          label="Pool"
          description="the nodes that serve it"
          value={draft.pool}
          maxLength={100}
          onChange={({ currentTarget }) => change({ pool: currentTarget.value })}
        />
      </div>
      <Group gap="xs" mt="sm">
        <Button type="submit" loading={action.busy} disabled={Object.keys(changes).length === 0}>
          Save
        </Button>
        <Button variant="default" onClick={onClose}>
          Cancel
        </Button>
      </Group>
    </form>
  );
}

interface NumberFieldProps {
  readonly field: Field;
  readonly value: number | string;
  readonly onChange: (value: number | string) => void;
  readonly focus: boolean;
}

function NumberField({ field, value, onChange, focus }: NumberFieldProps): ReactNode {
  const { label, hint, min, max, decimals = false } = field;
  return (
    <NumberInput
      label={label}
      description={hint}
      placeholder="none"
      value={value}
      onChange={onChange}
      allowDecimal={decimals}
      allowNegative={false}
      {...(min !== undefined && { min })}
      {...(max !== undefined && { max })}
      {...(focus && { 'data-autofocus': true, autoFocus: true })}
    />
  );
}
