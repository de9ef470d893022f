/** A scrape of `/metrics`, read as Prometheus reads it. */
export interface Scrape {
  /** Values by name and labels, as they are written: `name{a="b"}`. */
  readonly values: ReadonlyMap<string, number>;
  /** Types of the families, as in `# TYPE`. */
  readonly types: ReadonlyMap<string, string>;
}

export async function scrape(port: number | undefined): Promise<Scrape> {
  const response = await fetch(`http://127.0.0.1:${port}/metrics`, { signal: AbortSignal.timeout(10_000) });
  if (response.status !== 200) throw new Error(`/metrics answered ${response.status}`);
  return readExposition(await response.text());
}

export function readExposition(text: string): Scrape {
  const values = new Map<string, number>();
  const types = new Map<string, string>();
  for (const line of text.split('\n')) {
    const type = /^# TYPE (\S+) (\S+)$/.exec(line);
    if (type !== null) types.set(type[1] ?? '', type[2] ?? '');
    if (line === '' || line.startsWith('#')) continue;
    const [, name, value] = /^(.+) (\S+)$/.exec(line) ?? [];
    if (name === undefined) throw new Error(`no line of an exposition: ${line}`);
    values.set(name, Number(value));
  }
  return { values, types };
}
