/** A table to show in a terminal or a page. All texts are plain, and safe for a terminal. */
export interface Table {
  readonly title: string;
  readonly heads: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** Text that explains the table. */
  readonly note?: string;
}
