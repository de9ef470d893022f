import type { ReactNode } from 'react';
import { exact, short } from '../format/numbers.ts';
import { Nothing } from './text.tsx';

/** A count, in at most four digits; with all of them on hovering. */
export function Num({ value }: { readonly value: number | null | undefined }): ReactNode {
  if (value === null || value === undefined) return <Nothing says="unknown" />;
  const shown = short(value);
  const whole = exact(value);
  return shown === whole ? <span>{shown}</span> : <span title={whole}>{shown}</span>;
}
