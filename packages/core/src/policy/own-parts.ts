const parts = new WeakSet<object>();

/**
 * Marks a gate or an order that contains no function of the user's. Its calls need no time limit, and the
 * lanes that it chooses are not checked.
 */
export function ownPart<Part extends object>(part: Part): Part {
  parts.add(part);
  return part;
}

export function isOwnPart(part: object): boolean {
  return parts.has(part);
}
