/** Path the dashboard is mounted at, without a slash at the end: `` or `/admin/queue`. */
export const mount: string = new URL('.', document.baseURI).pathname.replace(/\/$/, '');

/** Returns the nonce of this page, for styles that components insert. */
export function styleNonce(): string {
  return document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? '';
}
