import type pg from 'pg';

/** Destroys a connection without waiting for the server, which may be gone. May be repeated. */
export function destroyClient(client: pg.ClientBase): void {
  client.on('error', () => {}); // raised by the break itself
  const { connection } = client as pg.ClientBase & {
    readonly connection?: { readonly stream?: { readonly destroy?: () => void } };
  };
  connection?.stream?.destroy?.();
}
