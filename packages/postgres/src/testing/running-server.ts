/** A running server, as a provider returns it. */
export interface RunningServer {
  readonly kind: ServerKind;
  readonly adminUrl: string;
  readonly stop: () => Promise<void>;
}

/** Source of a test server: a URL, a container, the embedded binaries, or Debian packages. */
export type ServerKind = 'url' | 'container' | 'embedded' | 'debian';
