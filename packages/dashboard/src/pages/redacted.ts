import { isDeepStrictEqual } from 'node:util';
import { keyOf } from '@pgqueue/postgres/internal/dashboard';
import type { Redact, Settings, Shown } from '../options.ts';

/**
 * Applies the redact hook to a document. One that could not be decrypted is replaced by the id of its key. If the hook fails, the whole document is hidden, since the parts it
 * would have removed are unknown.
 */
export function redacted({ redact, logger }: Settings, document: unknown, shown: Shown): unknown {
  const key = keyOf(document);
  if (key !== undefined)
    return {
      '…': `encrypted under the key ${JSON.stringify(key)}, and the dashboard can't decrypt it with its keys`,
    };
  if (redact === undefined || document === null || document === undefined) return document;
  return redactedBy(redact, document, shown, (error) =>
    logger?.error(
      { err: error, job: shown.id, document: shown.kind },
      'the redact hook failed: the document is not shown',
    ),
  );
}

/** Reports whether the hook changed a document, whatever the order of its members. */
export function differs(document: unknown, shown: unknown): boolean {
  return document !== shown && !isDeepStrictEqual(plain(document), plain(shown));
}

function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value ?? null)) as unknown;
}

function redactedBy(
  redact: Redact,
  document: unknown,
  shown: Shown,
  failed: (error: unknown) => void,
): unknown {
  try {
    const result = redact(structuredClone(document), shown);
    // a promise would be shown as {}
    if (result instanceof Promise)
      throw new TypeError('the redact hook returned a promise: it must answer at once');
    return plain(result);
  } catch (error) {
    failed(error);
    return { '…': 'not shown: the redact hook failed' };
  }
}
