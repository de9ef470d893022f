/** Why a file that was named can't be read, in words. */
export function whyUnread(error: unknown): string {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return 'there is no such file';
  return error instanceof Error ? error.message : String(error);
}
