import { useLocation } from 'wouter';
import { useSearch } from 'wouter/use-browser-location';

export type Given = Readonly<Record<string, string | undefined>>;

interface Filters<Name extends string> {
  /** What the address says; undefined: it says nothing. */
  readonly values: { readonly [name in Name]?: string };
  /** Undefined takes a filter away. Whatever changes, one begins at the first page. */
  readonly set: (changes: Given) => void;
  readonly any: boolean;
}

/**
 * Filters in the address: what one sees can be sent to somebody, and found again. Read as the browser has it: the router's own hook
 * decodes it twice, and a key such as `100%25` becomes another.
 */
export function useFilters<Name extends string>(names: readonly Name[]): Filters<Name> {
  const [path, navigate] = useLocation();
  const params = new URLSearchParams(useSearch());
  const given = names.flatMap((name) => {
    const value = params.get(name);
    return value === null ? [] : [[name, value] as const];
  });
  return {
    values: Object.fromEntries(given) as { readonly [name in Name]?: string },
    any: given.length > 0,
    set: (changes) => {
      // as it is now: something else may have been set since this was drawn
      const next = new URLSearchParams(location.search);
      if (!('after' in changes)) next.delete('after');
      for (const [name, value] of Object.entries(changes)) {
        if (value === undefined) next.delete(name);
        else next.set(name, value);
      }
      navigate(next.size === 0 ? path : `${path}?${next.toString()}`);
    },
  };
}

/** An address within the dashboard, with those parameters that are given. */
export function to(path: string, params: Given = {}): string {
  const given = Object.entries(params).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given).toString()}`;
}
