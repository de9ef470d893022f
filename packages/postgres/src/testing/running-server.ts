/** What a provider returns: a running server. */
export interface RunningServer {
  readonly kind: ServerKind;
  readonly adminUrl: string;
  readonly stop: () => Promise<void>;
}

/** Where a test server comes from: given by URL, a container, the embedded binaries, or Debian packages. */
export type ServerKind = 'url' | 'container' | 'embedded' | 'debian';
