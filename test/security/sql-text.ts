/** Finds, in the sources, where SQL is put together out of strings. */
import { globSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import { parseSync } from 'oxc-parser';

/** A value that becomes part of a statement's text, not one of its parameters. */
export interface Spliced {
  readonly file: string;
  /** As it is written in the source, spaces made one. */
  readonly expression: string;
}

type Node = Readonly<Record<string, unknown>> & {
  readonly type: string;
  readonly start: number;
  readonly end: number;
};

/** Words that make a text SQL wherever it stands. */
const words =
  /\b(?:select\s|insert into\s|update\s+\S+\s+set|delete from\s|listen\s|notify\s|(?:create|alter|drop)\s+(?:table|schema|role|user|index|view|function|database)\b|truncate\s|grant\s|revoke\s|set local\s|where\s|lateral\s|order by\s|values\s*[(§]|union all\b)/;
/** The files whose texts are SQL, but for messages: here even a fragment without any of these words counts. */
const sqlFiles = /^packages\/postgres\/src\/(?:statements|reads|operator)\//;
/** Texts for people alone. Where one of these words occurs in them after all, it counts as anywhere else. */
const messageFiles =
  /^packages\/postgres\/src\/(?:operator\/(?:explain\/(?:reasons|estimate)|status)|cron\/slots)\.ts$/;
/** Pure code: it has no driver that a statement could be given to. */
const pure = /^packages\/(?:core|lab)\//;
/** kysely and drizzle turn `${x}` into a parameter; these parts of them don't. */
const rawParts = new Set(['raw', 'lit', 'ref', 'table', 'id', 'identifier', 'unsafe']);
/** What is put into these is read by people. */
const spoken =
  /^(?:problems|problem|refuse|says|text|warn|note|Error|[A-Z]\w*Error|\w*[Pp]roblems?|\w*Text)$/;

/** Everything in the packages' sources that is spliced into a statement, but for the schema's name. */
export function splicedIn(root: string): readonly Spliced[] {
  const files = globSync(['packages/*/src/**/*.ts', 'bench/src/**/*.ts'], { cwd: root });
  return files
    .map((file) => file.split(sep).join('/'))
    .filter((file) => !/\.test\.ts$|\/testing\//.test(file) && !pure.test(file))
    .toSorted()
    .flatMap((file) => splicedInText(file, readFileSync(join(root, file), 'utf8')));
}

/** The same of one file's text. */
export function splicedInText(file: string, source: string): readonly Spliced[] {
  const { program, errors } = parseSync(file, source);
  if (errors[0] !== undefined) throw new Error(`${file}: ${errors[0].message}`);
  const found: Spliced[] = [];
  const say = (node: Node): void => {
    const expression = source.slice(node.start, node.end).replaceAll(/\s+/g, ' ');
    if (!isSchema(expression)) found.push({ file, expression });
  };
  walk(program, [], (node, parents) => {
    if (node.type === 'TemplateLiteral') {
      const expressions = node['expressions'] as readonly Node[];
      const text = (node['quasis'] as readonly { readonly value: { readonly cooked: string } }[])
        .map(({ value }) => value.cooked)
        .join('§');
      const tagged = parents.at(-1)?.type === 'TaggedTemplateExpression';
      const sql = words.test(text) || (sqlFiles.test(file) && !messageFiles.test(file) && !isSpoken(parents));
      if (sql && !tagged) expressions.forEach(say);
    }
    if (node.type === 'BinaryExpression' && node['operator'] === '+') {
      const text = source.slice(node.start, node.end);
      if (words.test(text) && /['"`]/.test(text)) say(node);
    }
    if (node.type === 'CallExpression') {
      const callee = node['callee'] as Node;
      const name = (callee['property'] as Node | undefined)?.['name'];
      const object = (callee['object'] as Node | undefined)?.['name'];
      if (object === 'sql' && rawParts.has(String(name))) say(node);
    }
  });
  return found;
}

/** Checked by `checkSchemaName` before anything is made of it. */
function isSchema(expression: string): boolean {
  return /^(?:\w+\.)*schema$/.test(expression);
}

function isSpoken(parents: readonly Node[]): boolean {
  return parents.some((parent) => {
    if (parent.type === 'ThrowStatement') return true;
    if (parent.type !== 'CallExpression' && parent.type !== 'NewExpression') return false;
    const callee = parent['callee'] as Node;
    const owner = callee.type === 'MemberExpression' ? (callee['object'] as Node) : callee;
    return spoken.test(String(owner['name']));
  });
}

function walk(
  node: unknown,
  parents: readonly Node[],
  visit: (node: Node, parents: readonly Node[]) => void,
): void {
  if (Array.isArray(node)) {
    for (const one of node) walk(one, parents, visit);
    return;
  }
  if (typeof node !== 'object' || node === null) return;
  const isNode = typeof (node as Partial<Node>).type === 'string';
  if (isNode) visit(node as Node, parents);
  const inside = isNode ? [...parents, node as Node] : parents;
  for (const child of Object.values(node)) walk(child, inside, visit);
}
