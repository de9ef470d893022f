import type { ReactNode } from 'react';
import { Fragment } from 'react';
import classes from './table.module.css';

/** A column of a table of `Row`s. */
export interface Column<Row> {
  readonly name: string;
  readonly cell: (row: Row) => ReactNode;
  /** Aligns numbers to the right. */
  readonly align?: 'right';
  /** Hides the heading except from screen readers, for columns of checkboxes or buttons. */
  readonly silent?: boolean;
  /** Content of the heading instead of the name, such as a checkbox for all rows. */
  readonly head?: ReactNode;
  /** Explanation of the heading, shown on hovering. */
  readonly title?: string;
  /** Makes this the row's heading. */
  readonly leads?: boolean;
  /** Hides the column if space is scarce; `very`: unless space is ample. */
  readonly minor?: true | 'very';
  /** Limits the width to that of the content. */
  readonly tight?: boolean;
}

interface TableProps<Row> {
  /** Description for screen readers. */
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly rowKey: (row: Row) => string;
  readonly marked?: (row: Row) => boolean;
  /** Content below a row, across all columns; undefined: none. */
  readonly below?: (row: Row) => ReactNode;
}

/**
 * A table. On a narrow screen each row becomes a card with labelled cells, so that nothing scrolls sideways.
 * Roles are explicit, because browsers drop the implicit ones if `display` changes.
 */
export function DataTable<Row>({ label, columns, rows, rowKey, marked, below }: TableProps<Row>): ReactNode {
  return (
    <table className={classes.table} role="table" aria-label={label}>
      <thead role="rowgroup">
        <tr role="row">
          {columns.map(({ name, head, title, align, silent, minor, tight }) => (
            <th
              key={name}
              role="columnheader"
              scope="col"
              title={title}
              data-align={align}
              data-minor={minor}
              data-tight={tight}
              data-silent={silent}
            >
              {head ?? (silent === true ? <span className={classes.spoken}>{name}</span> : name)}
            </th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {rows.map((row) => (
          <Fragment key={rowKey(row)}>
            <tr role="row" data-marked={marked?.(row)}>
              {columns.map((column) => (
                <Cell key={column.name} column={column} row={row} />
              ))}
            </tr>
            <Below span={columns.length}>{below?.(row)}</Below>
          </Fragment>
        ))}
      </tbody>
    </table>
  );
}

function Cell<Row>({ column, row }: { readonly column: Column<Row>; readonly row: Row }): ReactNode {
  const { name, cell, align, leads, silent, minor, tight } = column;
  const shared = { 'data-align': align, 'data-minor': minor, 'data-tight': tight, 'data-silent': silent };
  if (leads === true) {
    return (
      <th role="rowheader" scope="row" {...shared} data-label={name}>
        {cell(row)}
      </th>
    );
  }
  return (
    <td role="cell" {...shared} data-label={name}>
      {cell(row)}
    </td>
  );
}

function Below({ span, children }: { readonly span: number; readonly children: ReactNode }): ReactNode {
  if (children === undefined) return null;
  return (
    <tr role="row" className={classes.below}>
      <td role="cell" colSpan={span} data-silent>
        {children}
      </td>
    </tr>
  );
}
