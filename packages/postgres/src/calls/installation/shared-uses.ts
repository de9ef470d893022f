import type { Target } from '../../connection/target.ts';

/** Recent use of shares in one installation, as its leader tells it. */
export interface ToldUses {
  /** Name of the order. */
  readonly order: string;
  /** Number of the installation. */
  readonly installation: number;
  readonly epoch: number;
  /** JSON text. Null: only those of the others are read. */
  readonly uses: string | null;
}

/** Use in another installation. */
export interface OtherUses {
  readonly uses: unknown;
  readonly ageMs: number;
}

/** Tells the home of a fair order what its shares use in an installation; resolves to their use in the others. */
export function shareUses(
  { query, schema }: Target,
  { order, installation, epoch, uses }: ToldUses,
): Promise<readonly OtherUses[]> {
  return query<OtherUses>(
    `select uses, age_ms as "ageMs" from ${schema}.share_uses($1, $2, $3, $4::text::json)`,
    [order, installation, epoch, uses],
  );
}
