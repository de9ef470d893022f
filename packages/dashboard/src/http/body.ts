import type { Rule } from '@pgqueue/core/internal';
import { exactJson, InexactNumber, optionProblems } from '@pgqueue/core/internal';
import { Problem } from '../problem.ts';

const actionBytesMax = 262_144;

/** Reads the JSON body of an action. @throws {Problem} `media_type`, `too_large`, `bad_request` */
export async function readBody(request: Request): Promise<unknown> {
  return parseJson(await readJsonText(request, actionBytesMax));
}

/** @throws {Problem} `bad_request` */
export function parseJson(text: string): unknown {
  try {
    return exactJson(text);
  } catch (error) {
    if (error instanceof InexactNumber)
      throw new Problem('bad_request', `the body can't be taken: ${error.message}`);
    throw new Problem('bad_request', 'the body is no JSON');
  }
}

/**
 * Reads a body that must be JSON in UTF-8, as its text: other bytes make another text.
 * @throws {Problem} `media_type`, `too_large`, `bad_request`
 */
export async function readJsonText(request: Request, bytesMax: number): Promise<string> {
  const [type, ...parameters] = (request.headers.get('content-type') ?? '')
    .split(';')
    .map((part) => part.trim().toLowerCase());
  if (type !== 'application/json') {
    throw new Problem('media_type', 'the body must be JSON, and content-type must say so: application/json');
  }
  if (parameters.some((one) => /^charset\s*=/.test(one) && !/^charset\s*=\s*"?utf-?8"?$/.test(one))) {
    throw new Problem('media_type', 'the body must be UTF-8: leave the charset out of content-type');
  }
  if ((request.headers.get('content-encoding') ?? 'identity').toLowerCase() !== 'identity')
    throw new Problem('media_type', 'the body must not be compressed: leave content-encoding out');
  if (Number(request.headers.get('content-length') ?? 0) > bytesMax) throw tooLarge(bytesMax);
  if (request.body === null) return '';
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of request.body as unknown as AsyncIterable<Uint8Array>) {
      bytes += chunk.byteLength;
      if (bytes > bytesMax) throw tooLarge(bytesMax);
      chunks.push(chunk);
    }
  } catch (error) {
    if (error instanceof Problem) throw error;
    throw new Problem('bad_request', 'the body broke off'); // the client's doing, and nothing to log
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks));
  } catch {
    throw new Problem('bad_request', 'the body is not UTF-8');
  }
}

function tooLarge(bytesMax: number): Problem {
  return new Problem('too_large', `the body is too large: ${bytesMax} bytes at most`);
}

/**
 * Returns the body if it conforms to the rules. @throws {Problem} `bad_request`, with all problems at once
 */
export function checked(body: unknown, shape: Readonly<Record<string, Rule>>): unknown {
  const problems = optionProblems(body, shape, { path: 'body' });
  if (problems.length > 0) throw new Problem('bad_request', problems.join('; '), problems);
  return body;
}
