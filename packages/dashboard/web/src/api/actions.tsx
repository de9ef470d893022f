import { Button } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { Undo, UndoResult } from '../../../src/contract.ts';
import { counted } from '../format/numbers.ts';
import { visible } from '../format/text.ts';
import { post } from './client.ts';

/** Message about the result of an action, and its undo. */
export interface Told {
  readonly message: string;
  readonly undo?: Undo | null;
  /** Nothing was done. */
  readonly nothing?: boolean;
}

export interface Action<Body> {
  readonly run: (body: Body) => void;
  readonly busy: boolean;
}

interface ActionOptions<Body, Answer> {
  readonly path: string;
  readonly tell: (answer: Answer, body: Body) => Told;
  readonly onDone?: (answer: Answer) => void;
}

/** Returns a function that runs an action, shows the result and refreshes the page. */
export function useAction<Body, Answer>({ path, tell, onDone }: ActionOptions<Body, Answer>): Action<Body> {
  const cache = useQueryClient();
  const { mutate, isPending } = useMutation<Answer, Error, Body>({
    mutationFn: (body) => post<Answer>(path, body),
    onSuccess: (answer, body) => {
      say(tell(answer, body), () => void cache.invalidateQueries());
      onDone?.(answer);
    },
    onError: sayFailure,
    onSettled: () => cache.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'doctor' }),
  });
  return { run: mutate, busy: isPending };
}

export function sayFailure(error: Error): void {
  notifications.show({
    color: 'red',
    title: 'That did not work',
    message: visible(error.message),
    autoClose: 10_000,
  });
}

export function say({ message, undo, nothing = false }: Told, undone: () => void): void {
  const id = crypto.randomUUID?.() ?? String(Math.random());
  const offered = undo !== null && undo !== undefined;
  notifications.show({
    id,
    color: nothing ? 'yellow' : 'iris',
    message: offered ? <UndoLine id={id} message={message} undo={undo} undone={undone} /> : message,
    autoClose: offered ? 12_000 : 5_000,
  });
}

interface UndoLineProps {
  readonly id: string;
  readonly message: string;
  readonly undo: Undo;
  readonly undone: () => void;
}

function UndoLine({ id, message, undo, undone }: UndoLineProps): ReactNode {
  return (
    <>
      <span>{message} </span>
      <Button
        size="compact-xs"
        variant="light"
        onClick={() => {
          notifications.hide(id);
          void takeBack(undo, undone);
        }}
      >
        Undo
      </Button>
    </>
  );
}

/** Undoes an action, except for jobs that have changed in the meantime. */
export async function takeBack(undo: Undo, undone: () => void): Promise<void> {
  try {
    const { undone: back, missed } = await post<UndoResult>('actions/undo', { id: undo.id });
    const rest = missed > 0 ? `; ${counted(missed, 'other')} had gone on meanwhile` : '';
    say({ message: `Undone: ${back}${rest}`, nothing: back === 0 }, undone);
    undone();
  } catch (error) {
    sayFailure(error as Error);
  }
}
