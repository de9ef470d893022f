let outlived = false;

/**
 * Ends the process with 0 when the reader of its output has gone: one such as head closes the pipe when it has read enough.
 * A role outlives that, see {@link outliveReaders}. A reader of stderr alone is missed by nobody.
 */
export function endWithReader(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    if (!outlived) process.exit(0);
  });
  process.stderr.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
}

/**
 * From now on the process goes on without a reader: Ctrl-C of `pgqueue worker | tee log` ends tee at once, and running jobs are
 * to finish all the same.
 */
export function outliveReaders(): void {
  outlived = true;
}
