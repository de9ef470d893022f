import { Anchor, UnstyledButton } from '@mantine/core';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { clipped, visible } from '../format/text.ts';
import classes from './text.module.css';

const shownMax = 160;
/** Longer ones may be cut off where there is little room. */
const wholeMax = 20;

/** Text that a stranger wrote: isolated from the direction of its neighbours, and with what can't be seen made visible. */
export function Foreign({
  text,
  max = shownMax,
}: {
  readonly text: string;
  readonly max?: number;
}): ReactNode {
  const shown = visible(text);
  return (
    <bdi
      className={classes.foreign}
      title={shown.length > Math.min(max, wholeMax) ? clipped(shown, 2_000) : undefined}
    >
      {clipped(shown, max)}
    </bdi>
  );
}

/** Foreign text of some length: in a table, the first lines of it. */
export function Prose({ text, max }: { readonly text: string; readonly max?: number }): ReactNode {
  return (
    <span data-prose>
      <Foreign text={text} {...(max ? { max } : {})} />
    </span>
  );
}

interface NameProps {
  readonly text: string;
  readonly max?: number;
  /** In a table, too, as wide as it is. */
  readonly whole?: boolean;
}

/** A name (of a queue, task, key, node), in type of one width. */
export function Name({ text, max, whole = false }: NameProps): ReactNode {
  return (
    <span className={classes.name} data-name={whole ? undefined : true}>
      {text === '' ? (
        <span className={classes.faint}>(empty)</span>
      ) : (
        <Foreign text={text} {...(max ? { max } : {})} />
      )}
    </span>
  );
}

/** Says that there is nothing, in words for those who don't see the dash. */
export function Nothing({ says = 'none' }: { readonly says?: string }): ReactNode {
  return (
    <span className={classes.faint}>
      <span aria-hidden>–</span>
      <span className={classes.spoken}>{says}</span>
    </span>
  );
}

export function Faint({ children }: { readonly children: ReactNode }): ReactNode {
  return <span className={classes.faint}>{children}</span>;
}

/** A link within the dashboard. `to` is built by `paths`, which encodes what strangers wrote. */
export function To({ to, children }: { readonly to: string; readonly children: ReactNode }): ReactNode {
  return (
    <Anchor component={Link} to={to}>
      {children}
    </Anchor>
  );
}

/** The end of an id, which is what differs; the whole of it on hovering. */
export function JobId({ id }: { readonly id: string }): ReactNode {
  return (
    <Anchor
      component={Link}
      to={`/jobs/${encodeURIComponent(id)}`}
      className={classes.name}
      title={visible(id)}
    >
      <span className={classes.spoken}>job </span>
      {visible(id).slice(-12)}
    </Anchor>
  );
}

interface LinkButtonProps {
  readonly onClick: () => void;
  readonly expanded?: boolean;
  readonly pressed?: boolean;
  readonly children: ReactNode;
}

/** Looks like a link, and changes what is shown on this page. */
export function LinkButton({ onClick, expanded, pressed, children }: LinkButtonProps): ReactNode {
  return (
    <UnstyledButton
      className={classes.link}
      onClick={onClick}
      aria-expanded={expanded}
      aria-pressed={pressed}
    >
      {children}
    </UnstyledButton>
  );
}
