import { Button, Group, Modal } from '@mantine/core';
import type { ReactNode } from 'react';
import { useState } from 'react';

interface ConfirmProps {
  readonly opened: boolean;
  readonly onClose: () => void;
  readonly onConfirm: () => void;
  readonly title: string;
  /** Label of the confirming button: the action. */
  readonly verb: string;
  readonly children: ReactNode;
}

/** Asks before a destructive action. The cancelling button has the focus. */
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

/** Holds the thing to confirm, if any. */
export function useAsked<Thing>(): {
  readonly asked: Thing | undefined;
  readonly ask: (thing: Thing) => void;
  readonly close: () => void;
} {
  const [asked, setAsked] = useState<Thing>();
  return { asked, ask: setAsked, close: () => setAsked(undefined) };
}
