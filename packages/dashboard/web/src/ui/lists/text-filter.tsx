import { TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import type { ReactNode } from 'react';
import { useEffect, useState } from 'react';

const waitMs = 350;

interface TextFilterProps {
  readonly label: string;
  readonly value: string | undefined;
  readonly onChange: (value: string | undefined) => void;
  readonly width?: number;
}

/** A text filter that takes effect 350 ms after the last key. Empty text removes the filter. */
export function TextFilter({ label, value = '', onChange, width = 150 }: TextFilterProps): ReactNode {
  const [text, setText] = useState(value);
  const act = useDebouncedCallback((typed: string) => onChange(typed === '' ? undefined : typed), waitMs);
  useEffect(() => setText(value), [value]);
  return (
    <TextInput
      w={width}
      data-filter
      aria-label={label}
      placeholder={label}
      value={text}
      spellCheck={false}
      autoComplete="off"
      onChange={({ currentTarget }) => {
        setText(currentTarget.value);
        act(currentTarget.value);
      }}
    />
  );
}
