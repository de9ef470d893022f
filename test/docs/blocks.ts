/** A fenced block of a document: the words behind the fence, and its text. */
export interface Block {
  readonly language: string;
  /** The words behind the language: `run`, `background`, `not-run`, or a file's name. */
  readonly words: readonly string[];
  readonly text: string;
  /** Line of the fence, from 1. */
  readonly line: number;
}

/** The fenced blocks of a Markdown text, in order. */
export function blocksOf(markdown: string): readonly Block[] {
  const blocks: Block[] = [];
  const fence = /^( *)```(\S*)([^\n]*)\n([\s\S]*?)^\1```$/gm;
  for (const found of markdown.matchAll(fence)) {
    const [, indent = '', language = '', words = '', text = ''] = found;
    const line = markdown.slice(0, found.index).split('\n').length;
    const unindented = text.replaceAll(new RegExp(`^${indent}`, 'gm'), '');
    blocks.push({ language, words: words.trim().split(/\s+/).filter(Boolean), text: unindented, line });
  }
  return blocks;
}

/** The purpose of a block; a block in any other language is an illustration. */
export type Use =
  | { readonly kind: 'file'; readonly name: string; readonly run: boolean; readonly background: boolean }
  | { readonly kind: 'shell' | 'sql' | 'python'; readonly background: boolean }
  | { readonly kind: 'output' }
  | { readonly kind: 'excerpt'; readonly of: string }
  | { readonly kind: 'illustration' };

const fileLanguages = ['ts', 'js', 'python'];
const illustrations = ['', 'text', 'mermaid', 'yaml', 'ini', 'json', 'dockerfile', 'diff'];

/**
 * Returns how the test treats a block. TypeScript must name its file, so that blocks of one document can
 * import each other. A block that can't be run here says `not-run` and why. A block that says `from` and a
 * path is an excerpt of that file.
 */
export function useOf({ language, words, line }: Block): Use {
  const background = words.includes('background');
  const name = words.find((word) => /\.(?:ts|js|py)$/.test(word));
  if (words[0] === 'not-run') {
    if (words.length < 3) throw new Error(`line ${line}: say why the block is not run`);
    return { kind: 'illustration' };
  }
  if (words[0] === 'from') {
    if (words[1] === undefined || words.length > 2)
      throw new Error(`line ${line}: say which one file the excerpt is from`);
    return { kind: 'excerpt', of: words[1] };
  }
  if (language === 'output') return { kind: 'output' };
  if (name !== undefined && fileLanguages.includes(language)) {
    return { kind: 'file', name, run: background || words.includes('run'), background };
  }
  if (language === 'sh' || language === 'bash') return { kind: 'shell', background };
  if (language === 'sql') return { kind: 'sql', background };
  if (language === 'python') return { kind: 'python', background };
  if (illustrations.includes(language)) return { kind: 'illustration' };
  throw new Error(`line ${line}: a block of ${language} must name its file, or be one that the test can run`);
}
