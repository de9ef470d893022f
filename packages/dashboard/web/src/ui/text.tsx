import { Anchor, UnstyledButton } from '@mantine/core';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { clipped, visible } from '../format/text.ts';
import classes from './text.module.css';

const shownMax = 160;
/** Longest text without a tooltip; the layout may cut longer ones. */
const wholeMax = 20;

/**
 * Shows untrusted text: isolated from the direction of its surroundings, with invisible characters escaped.
 */
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

/** Shows longer untrusted text; a table shows its first lines. */
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
  /** Prevents a table from cutting it. */
  readonly whole?: boolean;
}

/** Shows a name (of a queue, task, key or node) in monospace. */
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

/** Shows a dash for a missing value, with words for screen readers. */
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

/** A link within the dashboard. `to` must be encoded, as the function `to` of filters.tsx does. */
export function To({ to, children }: { readonly to: string; readonly children: ReactNode }): ReactNode {
  return (
    <Anchor component={Link} to={to}>
      {children}
    </Anchor>
  );
}

/** Shows the last 12 characters of an id, which differ; the tooltip has the whole id. */
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

/** A button in the style of a link, which changes the page's state. */
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
