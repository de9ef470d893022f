import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openDatabase } from '@pgqueue/postgres/internal';
import { startEmbedded } from '@pgqueue/postgres/testing';
import { expect, test } from 'vitest';

test('a folder that a server uses is refused, and that server goes on', async () => {
  const base = mkdtempSync(join(tmpdir(), 'pgqueue-folder-'));
  chmodSync(base, 0o755); // as root the server runs as another user
  const data = join(base, 'made', 'on the way', 'data');
  const first = await startEmbedded({ data });
  const database = openDatabase({ connectionString: first.adminUrl });
  try {
    await expect(startEmbedded({ data })).rejects.toThrow('already: stop it, or choose another folder');
    expect(await database.query('select 1 as n', [])).toEqual([{ n: 1 }]);
  } finally {
    await database.close();
    await first.stop();
    rmSync(base, { recursive: true, force: true });
  }
});
