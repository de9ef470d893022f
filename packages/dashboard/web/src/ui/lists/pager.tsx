import { Button, Group } from '@mantine/core';
import type { ReactNode } from 'react';
import { Time } from '../time.tsx';
import classes from './pager.module.css';

interface PagerProps {
  /** The page's own cursor; undefined: it is the first. */
  readonly after: string | undefined;
  readonly next: string | null;
  readonly onPage: (after: string | undefined) => void;
  /** The page ended early, since it had looked at enough. */
  readonly lookedBackTo?: string | null;
}

/** To the next page, and back to the first; the browser goes back by one. */
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
