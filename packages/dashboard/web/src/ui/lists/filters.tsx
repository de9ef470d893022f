import { useLocation } from 'wouter';
import { useSearch } from 'wouter/use-browser-location';

export type Given = Readonly<Record<string, string | undefined>>;

interface Filters<Name extends string> {
  /** Filters in the address; a filter that is not set is undefined. */
  readonly values: { readonly [name in Name]?: string };
  /** Changes filters; undefined removes one. Every change returns to the first page. */
  readonly set: (changes: Given) => void;
  readonly any: boolean;
}

/**
 * Keeps filters in the address, so that a view can be shared and found again. Reads the browser's address:
 * the router's own hook decodes it twice, which changes a key such as `100%25`.
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
      // starts from the current address, which may have changed since this was rendered
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

/** Builds an address within the dashboard, with the given parameters encoded. */
export function to(path: string, params: Given = {}): string {
  const given = Object.entries(params).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given).toString()}`;
}
