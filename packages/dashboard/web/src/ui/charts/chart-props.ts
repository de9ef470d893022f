export interface Series {
  readonly name: string;
  readonly label: string;
  readonly color: string;
}

export type Point = { readonly at: number } & Readonly<Record<string, number | null>>;

export interface ChartProps {
  readonly kind: 'bars' | 'lines' | 'area';
  readonly points: readonly Point[];
  readonly series: readonly Series[];
  /** Formats a value with its unit. */
  readonly format: (value: number) => string;
  /** Summary of the chart for screen readers. */
  readonly says: string;
  /** Ticks of the value axis, from 0 to its end; default: round numbers. */
  readonly ticks?: readonly number[];
}

export const plotHeight = 176;
