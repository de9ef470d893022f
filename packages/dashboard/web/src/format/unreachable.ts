/** Ends a switch over all kinds; a kind that is not handled fails to compile. */
export function unreachable(kind: never): never {
  throw new Error(`unknown kind: ${JSON.stringify(kind)}`);
}
