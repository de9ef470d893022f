/**
 * Removes passwords from text: those in any connection string, and the one of the connection string in use.
 */
export type Redact = (text: string) => string;

/**
 * Returns a redactor.
 *
 * @param connectionString its password is removed wherever it occurs, unless it is shorter than 6 characters
 * or also a name in the address (`postgres:postgres@`), where removing it would hide more than it protects
 */
export function redactor(connectionString?: string): Redact {
  const secrets = connectionString === undefined ? [] : secretsOf(connectionString);
  return (text) => {
    let clean = text
      .replaceAll(/(\bpostgres(?:ql)?:\/\/[^\s:/@'"]*):[^\s'"]*@/gi, '$1:***@')
      .replaceAll(/\b(password|sslpassword)=[^\s&'"]+/gi, '$1=***');
    for (const secret of secrets) {
      clean = clean.replaceAll(secret, '***').replaceAll(JSON.stringify(secret).slice(1, -1), '***');
    }
    return clean;
  };
}

/**
 * Removes passwords from JSON, text by text, so that it stays JSON: what follows `password=` in a text may be its closing quote.
 * Most JSON has none, and is returned as it is.
 */
export function redactedJson(
  json: string,
  { redact, indent }: { redact: Redact; indent?: number | undefined },
): string {
  if (redact(json) === json) return json;
  const clean = (value: unknown): unknown => {
    if (typeof value === 'string') return redact(value);
    if (Array.isArray(value)) return value.map(clean);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [redact(name), clean(inner)]));
  };
  return JSON.stringify(clean(JSON.parse(json)), null, indent);
}

function secretsOf(connectionString: string): readonly string[] {
  // a Unix socket has a user and no host, which the driver takes and URL does not
  const text = connectionString.replace('@/', '@socket/');
  if (!URL.canParse(text)) return [];
  const url = new URL(text);
  const names = new Set([url.username, url.hostname, url.pathname.slice(1)]);
  const given = [url.password, url.searchParams.get('password') ?? ''];
  return given
    .flatMap((secret) => [secret, decoded(secret)])
    .filter((secret) => secret.length >= 6 && !names.has(secret));
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
