import { IconAlertTriangle } from '../icons.ts';
import type { ReactNode } from 'react';
import type { Warning } from '../../../../src/contract.ts';
import { visible } from '../../format/text.ts';
import classes from './warnings.module.css';

/** Warnings about conditions that keep jobs from running. */
export function Warnings({ warnings }: { readonly warnings: readonly Warning[] }): ReactNode {
  if (warnings.length === 0) return null;
  return (
    <ul className={classes.warnings} aria-label="Warnings">
      {warnings.map(({ kind, message }) => (
        <li key={kind + message}>
          <IconAlertTriangle size={16} aria-hidden />
          <bdi>{visible(message)}</bdi>
        </li>
      ))}
    </ul>
  );
}
