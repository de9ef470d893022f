/** Whether a file's name says that it is in the Standard Workload Format. */
export function isSwf(file: string): boolean {
  return /\.swf$/i.test(file);
}
