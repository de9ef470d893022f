import { Button, Group, Modal } from '@mantine/core';
import type { ReactNode } from 'react';
import { useState } from 'react';

interface ConfirmProps {
  readonly opened: boolean;
  readonly onClose: () => void;
  readonly onConfirm: () => void;
  readonly title: string;
  /** The button's word: what is about to be done. */
  readonly verb: string;
  readonly children: ReactNode;
}

/** Asks before something that hurts. The way out has the focus. */
export function Confirm({ opened, onClose, onConfirm, title, verb, children }: ConfirmProps): ReactNode {
  return (
    <Modal opened={opened} onClose={onClose} title={title}>
      {children}
      <Group gap="xs" mt="md" justify="flex-end">
        <Button variant="default" onClick={onClose} data-autofocus>
          Don’t
        </Button>
        <Button
          color="red"
          onClick={() => {
            onClose();
            onConfirm();
          }}
        >
          {verb}
        </Button>
      </Group>
    </Modal>
  );
}

/** Something to be confirmed, or nothing. */
export function useAsked<Thing>(): {
  readonly asked: Thing | undefined;
  readonly ask: (thing: Thing) => void;
  readonly close: () => void;
} {
  const [asked, setAsked] = useState<Thing>();
  return { asked, ask: setAsked, close: () => setAsked(undefined) };
}
