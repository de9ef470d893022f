const parts = new WeakSet<object>();

/** Says of a gate or an order that no function of the user's is in it: it needs nobody to watch over its time. */
export function ownPart<Part extends object>(part: Part): Part {
  parts.add(part);
  return part;
}

export function isOwnPart(part: object): boolean {
  return parts.has(part);
}
