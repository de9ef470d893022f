// Writes docs/encryption-vectors.json anew. Its nonces are fixed, so that the same values give the same bytes.
import { createCipheriv, createHmac } from 'node:crypto';
import { writeFileSync } from 'node:fs';

const key = Buffer.from(Array.from({ length: 32 }, (_, index) => index));
const older = Buffer.alloc(32, 0xa5);
const keys = [
  { id: '2026-11', key: key.toString('base64') },
  { id: 'schlüssel "2025"', key: older.toString('base64') },
];
const job = '0193a4d2-7c1e-7b44-9d3a-5f0c2e8b6a71';
const flow = '0193a4d2-8000-7000-8000-000000000001';
const values = [
  [0, job, 'payload', 'send-email', { to: 'ada@example.com', tries: 3, big: 1e300, nothing: null }],
  [1, job, 'payload', 'send-email', {}],
  [0, job, 'result', 'send-email', 'naïve ☃ 🎉'],
  [0, job, 'result', 'send-email', [1, 2.5, false]],
  [
    0,
    job,
    'checkpoint',
    'zählen\nzwei',
    { pgqueue: { v: 1, steps: { a: { kind: 'step', value: 5 } } }, data: null },
  ],
  [0, job, 'error', 'send-email', { kind: 'error', name: 'Error', message: 'no route to host' }],
  [1, job, 'progress', 'send-email', 0.5],
  [0, flow, 'signal', 'review.ok', { by: 'ada' }],
  [0, flow, 'signal', 'review.ok', null],
  [0, job, 'payload', 'send-email', { $enc: 1, key: '2026-11', data: 'a value of the user' }],
];
const vectors = values.map(([at, id, field, name, value], index) => {
  const nonce = Buffer.alloc(12, index + 1);
  const aad = `pgqueue-enc-1\n${id}\n${field}\n${name}`;
  const text = JSON.stringify(value);
  const cipher = createCipheriv('aes-256-gcm', [key, older][at], nonce);
  cipher.setAAD(Buffer.from(aad));
  const data = Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
  const stored = { $enc: 1, key: keys[at].id, data: data.toString('base64') };
  return { id, field, name, aad, nonce: nonce.toString('base64'), text, value, stored };
});
const [first] = vectors;
const bytes = Buffer.from(first.stored.data, 'base64');
const changed = Buffer.from(bytes);
changed[20] ^= 1;
const at = { id: first.id, field: first.field, name: first.name };
const withData = (data) => ({ ...first.stored, data: data.toString('base64') });
const refused = [
  { why: 'another job', code: 'undecodable', ...at, id: flow, stored: first.stored },
  { why: 'another field', code: 'undecodable', ...at, field: 'result', stored: first.stored },
  { why: 'another task', code: 'undecodable', ...at, name: 'send-mail', stored: first.stored },
  { why: 'one bit changed', code: 'undecodable', ...at, stored: withData(changed) },
  { why: 'cut', code: 'undecodable', ...at, stored: withData(bytes.subarray(0, -1)) },
  { why: 'too short', code: 'undecodable', ...at, stored: withData(bytes.subarray(0, 27)) },
  {
    why: 'under the id of another key',
    code: 'undecodable',
    ...at,
    stored: { ...first.stored, key: keys[1].id },
  },
  {
    why: 'under a key that is not there',
    code: 'key_missing',
    ...at,
    stored: { ...first.stored, key: 'lost' },
  },
  { why: 'of a later version', code: 'key_missing', ...at, stored: { ...first.stored, $enc: 2 } },
];
/** Plain values that must not be taken for encrypted ones. */
const plain = [
  { $enc: true, key: 'x', data: 'y' },
  { $enc: 1, key: 'x' },
  { $enc: '1', key: 'x', data: 'y' },
  [1],
  'x',
  null,
];
const blind = [
  ['ada@example.com', older],
  ['naïve ☃ 🎉', key],
  ['', key],
].map(([value, secret]) => ({
  value,
  key: secret.toString('base64'),
  text: createHmac('sha256', secret).update(value).digest('base64url'),
}));
const about =
  'AES-256-GCM; data: base64 of nonce (12 bytes), encrypted UTF-8 of the JSON text, tag (16 bytes); aad: additional data, pgqueue-enc-1, id, field and name (of the task; of the step, for a signal) joined by line feeds; blind: HMAC-SHA256 as base64url without padding';
const file = new URL('encryption-vectors.json', import.meta.url);
writeFileSync(file, `${JSON.stringify({ about, keys, vectors, refused, plain, blind }, null, 2)}\n`);
