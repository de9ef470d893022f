/** The path that the dashboard is mounted at, without a slash at its end: `` or `/admin/queue`. */
export const mount: string = new URL('.', document.baseURI).pathname.replace(/\/$/, '');

/** The nonce of this answer, for the styles that components bring. */
export function styleNonce(): string {
  return document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? '';
}
