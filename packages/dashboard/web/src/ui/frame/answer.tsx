import { Alert, Button, Skeleton, Stack } from '@mantine/core';
import { IconAlertTriangle, IconRefresh } from '../icons.ts';
import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { visible } from '../../format/text.ts';
import classes from './answer.module.css';

interface AnswerProps<Data> {
  readonly query: Pick<UseQueryResult<Data>, 'data' | 'error' | 'refetch' | 'isFetching'>;
  /** Approximate height in rows, so that the content does not shift when the answer arrives. */
  readonly rows?: number;
  readonly children: (data: Data) => ReactNode;
}

/** Shows an answer of the server, a skeleton before it arrives, or the error with a button to retry. */
export function Answer<Data>({ query, rows = 6, children }: AnswerProps<Data>): ReactNode {
  const { data, error, refetch, isFetching } = query;
  if (data !== undefined) {
    return (
      <>
        {error !== null && <Failure error={error} stale retry={() => void refetch()} busy={isFetching} />}
        {children(data)}
      </>
    );
  }
  if (error !== null) return <Failure error={error} retry={() => void refetch()} busy={isFetching} />;
  return (
    <Stack gap="sm" p="md" role="status" aria-label="loading">
      {Array.from({ length: rows }, (_, row) => (
        <Skeleton key={row} height={14} width={`${90 - ((row * 17) % 40)}%`} />
      ))}
    </Stack>
  );
}

interface FailureProps {
  readonly error: Error;
  readonly stale?: boolean;
  readonly retry?: () => void;
  readonly busy?: boolean;
}

export function Failure({ error, stale = false, retry, busy = false }: FailureProps): ReactNode {
  return (
    <Alert
      className={classes.failure}
      color="red"
      variant="light"
      role="alert"
      icon={<IconAlertTriangle size={16} aria-hidden />}
      title={stale ? 'What is shown is no longer fresh' : 'This could not be read'}
    >
      <p className={classes.message}>{visible(error.message)}</p>
      {retry !== undefined && (
        <Button
          variant="default"
          leftSection={<IconRefresh size={14} aria-hidden />}
          onClick={retry}
          loading={busy}
        >
          Try again
        </Button>
      )}
    </Alert>
  );
}

/** Placeholder for an empty list, with advice on what to do. */
export function Empty({
  title,
  children,
}: {
  readonly title: string;
  readonly children?: ReactNode;
}): ReactNode {
  return (
    <div className={classes.empty}>
      <p className={classes.emptyTitle}>{title}</p>
      {children !== undefined && <p className={classes.emptyNote}>{children}</p>}
    </div>
  );
}
