import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Links of a document that lead to no file, or to no heading of one. Those to other sites are not looked at. */
export function deadLinks(root: string, name: string): readonly string[] {
  const text = readFileSync(join(root, name), 'utf8');
  const links = [...text.matchAll(/\]\(([^)#\s]*)(?:#([^)\s]*))?\)/g)];
  return links.flatMap(([, target = '', anchor]) => {
    if (/^[a-z]+:/.test(target)) return [];
    const file = target === '' ? join(root, name) : join(root, name, '..', target);
    if (!existsSync(file)) return [target];
    if (anchor === undefined || anchorsOf(readFileSync(file, 'utf8')).has(anchor)) return [];
    return [`${target}#${anchor}`];
  });
}

/** The anchors of a Markdown text's headings, as GitHub makes them. */
export function anchorsOf(markdown: string): ReadonlySet<string> {
  const seen = new Map<string, number>();
  const prose = markdown.replaceAll(/^( *)```[\s\S]*?^\1```$/gm, '');
  const anchors = [...prose.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => {
    const shown = heading.trim().replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1');
    const anchor = shown
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(/\s/g, '-');
    const before = seen.get(anchor) ?? 0;
    seen.set(anchor, before + 1);
    return before === 0 ? anchor : `${anchor}-${before}`;
  });
  return new Set(anchors);
}
