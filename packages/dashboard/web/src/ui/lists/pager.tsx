import { Button, Group } from '@mantine/core';
import type { ReactNode } from 'react';
import { Time } from '../time.tsx';
import classes from './pager.module.css';

interface PagerProps {
  /** Cursor of the shown page; undefined: the first page. */
  readonly after: string | undefined;
  readonly next: string | null;
  readonly onPage: (after: string | undefined) => void;
  /** Set if the page ended early, at its limit of examined rows. */
  readonly lookedBackTo?: string | null;
}

/** Links to the next page and back to the first; the browser's history leads to the previous one. */
export function Pager({ after, next, onPage, lookedBackTo = null }: PagerProps): ReactNode {
  if (after === undefined && next === null) return null;
  return (
    <Group
      className={classes.pager}
      gap="xs"
      justify="flex-end"
      component="nav"
      aria-label="Pages of the list"
    >
      {lookedBackTo !== null && (
        <span className={classes.note}>
          Looked back to <Time at={lookedBackTo} />, and there is more.
        </span>
      )}
      <Button variant="default" disabled={after === undefined} onClick={() => onPage(undefined)}>
        First page
      </Button>
      <Button
        variant="default"
        disabled={next === null}
        onClick={() => {
          if (next !== null) onPage(next);
        }}
      >
        {lookedBackTo === null ? 'Next page' : 'Look further back'}
      </Button>
    </Group>
  );
}
