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
  /** With its unit. */
  readonly format: (value: number) => string;
  /** What it shows, in words: a chart is nothing to those who hear a page. */
  readonly says: string;
  /** Marks of the axis, from nought to its end; left out: round numbers. */
  readonly ticks?: readonly number[];
}

export const plotHeight = 176;
