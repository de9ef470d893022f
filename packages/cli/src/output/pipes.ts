let outlived = false;

/**
 * Ends the process with 0 when the reader of its output has gone: one such as head closes the pipe when it has read enough.
 * A role outlives that, see {@link outliveReaders}. A reader of stderr alone is missed by nobody. Output that can't be written for
 * another reason, such as a full disk, ends the process with 1; `failed` tells why.
 */
export function endWithReader(failed: (message: string) => void): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') {
      failed(`can't write the output: ${error.message}`);
      process.exit(1);
    }
    if (!outlived) process.exit(0);
  });
  process.stderr.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') process.exit(1); // nobody can be told
  });
}

/**
 * From now on the process goes on without a reader: Ctrl-C of `pgqueue worker | tee log` ends tee at once, and running jobs are
 * to finish all the same.
 */
export function outliveReaders(): void {
  outlived = true;
}
