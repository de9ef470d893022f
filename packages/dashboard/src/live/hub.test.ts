import { expect, test } from 'vitest';
import type { LiveSnapshot } from '../contract.ts';
import { createHub } from './hub.ts';

/** Reads a stream until it ends, or until it says nothing for the moment. */
async function read(stream: ReadableStream<Uint8Array>): Promise<{ text: string; ended: boolean }> {
  const reader = stream.getReader();
  const silence = new Promise<'silent'>((resolve) => setImmediate(resolve, 'silent'));
  let text = '';
  for (;;) {
    const part = await Promise.race([reader.read(), silence]);
    if (part === 'silent') return { text, ended: false };
    if (part.done) return { text, ended: true };
    text += Buffer.from(part.value).toString('utf8');
  }
}

test('a client that missed more events than its queue holds is ended, and is no client any more', async () => {
  const hub = createHub();
  const heard: boolean[] = [];
  hub.onClients((some) => heard.push(some));
  const first = hub.open(null);
  hub.send({ event: 'snapshot', data: {} as LiveSnapshot });
  const { text } = await read(first);
  const [, id = ''] = /^id: (.*)$/m.exec(text) ?? [];
  for (let n = 0; n < 150; n++) hub.send({ event: 'trouble', data: { message: 'x' } });
  hub.send({ event: 'snapshot', data: {} as LiveSnapshot });
  expect({ clients: hub.clients(), heard }, 'the first has not read them').toEqual({
    clients: 0,
    heard: [true, false],
  });

  const again = await read(hub.open(id));
  expect(again.text).toMatch(/^id: /m);
  expect(again.ended).toBe(true);
  expect({ clients: hub.clients(), heard }).toEqual({ clients: 0, heard: [true, false, true, false] });
  hub.close();
});
