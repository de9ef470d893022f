import type { KeyObject } from 'node:crypto';
import { createCipheriv, createDecipheriv, createHmac, createSecretKey } from 'node:crypto';
import { randomBytesOf } from '../process/random-bytes.ts';

/** The two functions of the package `sodium-native` that {@link encrypted} calls. */
export interface Sodium {
  readonly crypto_aead_chacha20poly1305_ietf_encrypt: (
    into: Buffer,
    text: Buffer,
    additional: Buffer,
    unused: null,
    nonce: Buffer,
    key: Buffer,
  ) => number;
  readonly crypto_aead_chacha20poly1305_ietf_decrypt: (
    into: Buffer,
    unused: null,
    encrypted: Buffer,
    additional: Buffer,
    nonce: Buffer,
    key: Buffer,
  ) => number;
}

/** Encrypts and decrypts with one key. The bytes are a nonce, the encrypted text and its tag. */
export interface Cipher {
  /** Begins the values that it wrote. */
  readonly version: 1 | 2;
  readonly encrypt: (text: string, additional: Buffer) => Buffer;
  /** @throws {Error} if the text or the additional data were changed. `bytes` may be overwritten. */
  readonly decrypt: (bytes: Buffer, additional: Buffer) => string;
}

const nonceBytes = 12;
const tagBytes = 16;

/** Returns a nonce that was never used before. */
const nextNonce = randomBytesOf(nonceBytes, 1_024);

/** Ciphers of one key. */
export interface Ciphers {
  readonly writes: Cipher;
  /** By version. */
  readonly reads: ReadonlyMap<number, Cipher>;
}

/** Returns the ciphers of a key. ChaCha20-Poly1305 has a key of its own, which is derived from it. */
export function ciphersOf(secret: KeyObject, sodium: Sodium | undefined): Ciphers {
  const aes = nodeCipher(1, secret);
  const derived = createHmac('sha256', secret).update('pgqueue-chacha20-poly1305').digest();
  const chacha =
    sodium === undefined ? nodeCipher(2, createSecretKey(derived)) : sodiumCipher(sodium, derived);
  const reads = new Map([[aes.version, aes]]);
  if (sodium !== undefined || isThere(chacha)) reads.set(chacha.version, chacha);
  return { writes: sodium === undefined ? aes : chacha, reads };
}

/** Reports whether this OpenSSL has the cipher: one for FIPS 140 has AES alone. */
function isThere(cipher: Cipher): boolean {
  try {
    cipher.encrypt('', Buffer.alloc(0));
    return true;
  } catch {
    return false;
  }
}

/** Handles Buffers and makes texts of them once: with an encoding, Node would make a decoder for each text. */
function nodeCipher(version: Cipher['version'], secret: KeyObject): Cipher {
  const options = { authTagLength: tagBytes };
  // the types of node:crypto have a function for each of the names, and none for both
  const as = (version === 1 ? 'aes-256-gcm' : 'chacha20-poly1305') as 'aes-256-gcm';
  return {
    version,
    encrypt: (text, additional) => {
      const nonce = nextNonce();
      const cipher = createCipheriv(as, secret, nonce, options);
      cipher.setAAD(additional);
      const encryptedText = cipher.update(text, 'utf8');
      cipher.final(); // empty: the mode is a stream
      return Buffer.concat([nonce, encryptedText, cipher.getAuthTag()]);
    },
    decrypt: (bytes, additional) => {
      const { nonce, encryptedText, tag } = partsOf(bytes);
      const decipher = createDecipheriv(as, secret, nonce, options);
      decipher.setAAD(additional);
      decipher.setAuthTag(tag);
      const text = decipher.update(encryptedText);
      decipher.final(); // throws if anything was changed
      return text.toString('utf8');
    },
  };
}

/** A text under a key and a nonce of zeros, and with the additional data `a`, as node:crypto writes it. */
const sample = { text: 'pgqueue', base64: 'AAAAAAAAAAAAAAAA72CWyzAkXbUjy/3jkR96S4hOVEUwSo0=' };

/**
 * Reports whether a value is `sodium-native`, by what its functions do: other packages have some of these names, and one that does not
 * verify would let values through that were changed.
 */
export function isSodium(value: unknown): value is Sodium {
  const cipher = sodiumCipher(value as Sodium, Buffer.alloc(32));
  const additional = Buffer.from('a');
  const reads = (bytes: Buffer): boolean => {
    try {
      return cipher.decrypt(bytes, additional) === sample.text;
    } catch {
      return false;
    }
  };
  try {
    const changed = Buffer.from(sample.base64, 'base64');
    changed[changed.length - 1] = 0; // the tag alone: the text would be read as it is
    const stored = [Buffer.from(sample.base64, 'base64'), cipher.encrypt(sample.text, additional)];
    return stored.every(reads) && !reads(changed);
  } catch {
    return false;
  }
}

/** Encrypts and decrypts in place. One call for each value: node:crypto takes five, and makes an object. */
function sodiumCipher(sodium: Sodium, key: Buffer): Cipher {
  return {
    version: 2,
    encrypt: (text, additional) => {
      const bytes = Buffer.allocUnsafe(nonceBytes + Buffer.byteLength(text, 'utf8') + tagBytes);
      const { nonce, encryptedText, sealed } = partsOf(bytes);
      nextNonce().copy(nonce);
      encryptedText.write(text, 'utf8');
      sodium.crypto_aead_chacha20poly1305_ietf_encrypt(sealed, encryptedText, additional, null, nonce, key);
      return bytes;
    },
    decrypt: (bytes, additional) => {
      const { nonce, encryptedText, sealed } = partsOf(bytes);
      sodium.crypto_aead_chacha20poly1305_ietf_decrypt(encryptedText, null, sealed, additional, nonce, key);
      return encryptedText.toString('utf8');
    },
  };
}

/** Returns the parts of a value. `sealed`: the encrypted text with its tag. */
function partsOf(bytes: Buffer): Readonly<Record<'nonce' | 'encryptedText' | 'tag' | 'sealed', Buffer>> {
  const end = bytes.length - tagBytes;
  if (end < nonceBytes) throw new Error(`it has ${bytes.length} bytes`);
  return {
    nonce: bytes.subarray(0, nonceBytes),
    encryptedText: bytes.subarray(nonceBytes, end),
    tag: bytes.subarray(end),
    sealed: bytes.subarray(nonceBytes),
  };
}
