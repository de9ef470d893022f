import type { ReactNode } from 'react';
import { Fragment } from 'react';
import classes from './table.module.css';

/** A column of a table of `Row`s. */
export interface Column<Row> {
  readonly name: string;
  readonly cell: (row: Row) => ReactNode;
  /** Numbers stand right. */
  readonly align?: 'right';
  /** The heading is only spoken: of a column of boxes to tick, or of buttons. */
  readonly silent?: boolean;
  /** What stands in the heading instead of the name, such as a box that ticks all. */
  readonly head?: ReactNode;
  /** It names the row. */
  readonly leads?: boolean;
  /** Left out where there is little room; `very`: unless there is much. */
  readonly minor?: true | 'very';
  /** No wider than its content. */
  readonly tight?: boolean;
}

interface TableProps<Row> {
  /** What the table shows, for those who hear it. */
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly rowKey: (row: Row) => string;
  readonly marked?: (row: Row) => boolean;
  /** What stands below a row, over its whole width; undefined: nothing. */
  readonly below?: (row: Row) => ReactNode;
}

/**
 * A table; on a narrow screen each row becomes a card whose cells have names, so that nothing needs to be moved sideways. The roles are
 * written out, because a browser forgets them where `display` changes.
 */
export function DataTable<Row>({ label, columns, rows, rowKey, marked, below }: TableProps<Row>): ReactNode {
  return (
    <table className={classes.table} role="table" aria-label={label}>
      <thead role="rowgroup">
        <tr role="row">
          {columns.map(({ name, head, align, silent, minor, tight }) => (
            <th
              key={name}
              role="columnheader"
              scope="col"
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
