import { createReadStream, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { HistoryEvent } from './history.ts';

/** Every line of every *.jsonl in a folder, in no order. A last line that a killed process did not finish is left out. */
export async function readHistory(folder: string): Promise<HistoryEvent[]> {
  const events: HistoryEvent[] = [];
  for (const name of readdirSync(folder).toSorted()) {
    if (!name.endsWith('.jsonl')) continue;
    const lines = createInterface({ input: createReadStream(join(folder, name)), crlfDelay: Infinity });
    for await (const line of lines) {
      if (line.endsWith('}')) events.push(JSON.parse(line) as HistoryEvent);
    }
  }
  return events;
}
