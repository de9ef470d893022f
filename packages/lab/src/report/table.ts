/** A table for people: in a terminal or a page. All texts are plain, and safe to show in a terminal. */
export interface Table {
  readonly title: string;
  readonly heads: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** What is to be known about it. */
  readonly note?: string;
}
