/** For the end of a switch over all kinds of something: another kind does not compile there. */
export function unreachable(kind: never): never {
  throw new Error(`unknown kind: ${JSON.stringify(kind)}`);
}
