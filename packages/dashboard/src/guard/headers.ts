/** Headers of every answer, against sniffing, framing, leaking referrers and use by other origins. */
const always: Readonly<Record<string, string>> = {
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
};

/** Content security policy of a page: its own files, and styles with the nonce of this answer. */
export function pagePolicy(nonce: string): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    "connect-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data:",
    "font-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'self'",
    "form-action 'self'",
  ].join('; ');
}

export const dataPolicy: string =
  "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/** Sets the security headers. A policy and a cache-control that are set already stay. */
export function secure(headers: Headers, policy: string): void {
  for (const [name, value] of Object.entries(always)) headers.set(name, value);
  if (!headers.has('content-security-policy')) headers.set('content-security-policy', policy);
  if (!headers.has('cache-control')) headers.set('cache-control', 'no-store');
}
