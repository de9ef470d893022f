/** Size in cells. */
export interface Screen {
  readonly columns: number;
  readonly rows: number;
}

/** Returns the size of a terminal; 80 by 24 if it tells none, or 0, as one without a window does. */
export function screenOf({ columns = 0, rows = 0 }: Partial<Screen>): Screen {
  return { columns: columns > 0 ? columns : 80, rows: rows > 0 ? rows : 24 };
}
