import type pg from 'pg';

/** Ends a connection without asking the other side, which may not be there any more. May be repeated. */
export function destroyClient(client: pg.ClientBase): void {
  client.on('error', () => {}); // what the break itself brings
  const { connection } = client as pg.ClientBase & {
    readonly connection?: { readonly stream?: { readonly destroy?: () => void } };
  };
  connection?.stream?.destroy?.();
}
