// The module of an isolated handler.
export const handler = ({ n }: { readonly n: number }): number => n + process.ppid;
