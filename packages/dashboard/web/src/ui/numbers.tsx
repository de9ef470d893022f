import type { ReactNode } from 'react';
import { exact, short } from '../format/numbers.ts';
import { Nothing } from './text.tsx';

/** Shows a count in up to four digits; the tooltip has all of them. */
export function Num({ value }: { readonly value: number | null | undefined }): ReactNode {
  if (value === null || value === undefined) return <Nothing says="unknown" />;
  const shown = short(value);
  const whole = exact(value);
  return shown === whole ? <span>{shown}</span> : <span title={whole}>{shown}</span>;
}
