/** Path the dashboard is mounted at, without a slash at the end: `` or `/admin/queue`. */
export const mount: string = new URL('.', document.baseURI).pathname.replace(/\/$/, '');

const view = document.querySelector<HTMLMetaElement>('meta[name="pgqueue-view"]')?.content ?? '';

/** The pages are those over several installations. */
export const isOverall: boolean = view === '*';

/** Name of the installation of these pages; undefined: it is the only one, or they are over all. */
export const installation: string | undefined = isOverall || view === '' ? undefined : view;

/** Address of the pages over all installations, from those of one of them. */
export const overallHref: string = `${mount.replace(/\/i\/[^/]+$/, '')}/`;

/** Returns the address of the pages of one installation, from those over all, or of one page of it. */
export function hrefOf(name: string, path: string = ''): string {
  return `${mount}/i/${encodeURIComponent(name)}/${path}`;
}

/** Returns the nonce of this page, for styles that components insert. */
export function styleNonce(): string {
  return document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? '';
}
