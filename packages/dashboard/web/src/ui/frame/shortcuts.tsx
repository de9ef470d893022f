import { Kbd, Modal, Table } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import type { ReactNode } from 'react';
import { useEffect, useRef } from 'react';
import { useLocation } from 'wouter';
import type { Entry } from './shell.tsx';

/** Time in which a letter must follow `g`, in milliseconds. */
const sequenceMs = 3_000;

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && (target.isContentEditable || target.matches('input, textarea, select'))
  );
}

/** Keyboard shortcuts: `g` and a letter opens a page, `/` focuses the first filter, `?` shows this list. */
export function Shortcuts({ entries }: { readonly entries: readonly Entry[] }): ReactNode {
  const [, go] = useLocation();
  const [opened, { open, close }] = useDisclosure();
  const gAt = useRef(Number.NEGATIVE_INFINITY);
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      // uses the events' own times: a busy page handles keys late
      const after = event.timeStamp - gAt.current < sequenceMs;
      gAt.current = event.key === 'g' ? event.timeStamp : Number.NEGATIVE_INFINITY;
      const entry = entries.find(({ letter }) => letter === event.key);
      if (after && entry !== undefined) {
        if (entry.href === undefined) go(entry.to);
        else location.assign(entry.href);
      } else if (event.key === '?') open();
      else if (event.key === '/') focusFilter(event);
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, [go, open, entries]);
  return (
    <Modal opened={opened} onClose={close} title="Keys" size="sm">
      <Table>
        <Table.Tbody>
          {entries.map(({ name, letter }) => (
            <Line key={letter} keys={['g', letter]} does={name} />
          ))}
          <Line keys={['/']} does="First filter of the page" />
          <Line keys={['?']} does="These keys" />
        </Table.Tbody>
      </Table>
    </Modal>
  );
}

function Line({ keys, does }: { readonly keys: readonly string[]; readonly does: string }): ReactNode {
  return (
    <Table.Tr>
      <Table.Td>
        {keys.map((key) => (
          <Kbd key={key} mr={4}>
            {key}
          </Kbd>
        ))}
      </Table.Td>
      <Table.Td>{does}</Table.Td>
    </Table.Tr>
  );
}

function focusFilter(event: KeyboardEvent): void {
  const filter = document.querySelector<HTMLElement>('main input[data-filter], main [data-filter] input');
  if (filter === null) return;
  event.preventDefault();
  filter.focus();
}
