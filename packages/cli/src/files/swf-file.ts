/** Reports whether a file name has the extension of the Standard Workload Format. */
export function isSwf(file: string): boolean {
  return /\.swf$/i.test(file);
}
