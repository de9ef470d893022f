/** Finds the places in the sources where SQL is built from strings. */
import { globSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import { parseSync } from 'oxc-parser';

/** A value that becomes part of a statement's text, not one of its parameters. */
export interface Spliced {
  readonly file: string;
  /** Source text of the expression, with each run of spaces made one. */
  readonly expression: string;
}

type Node = Readonly<Record<string, unknown>> & {
  readonly type: string;
  readonly start: number;
  readonly end: number;
};

/** Words that make a text count as SQL in any file. */
const words =
  /\b(?:select\s|insert into\s|update\s+\S+\s+set|delete from\s|listen\s|notify\s|(?:create|alter|drop)\s+(?:table|schema|role|user|index|view|function|database)\b|truncate\s|grant\s|revoke\s|set local\s|where\s|lateral\s|order by\s|values\s*[(§]|union all\b)/;
/** Files whose texts are SQL, except for messages: here a fragment counts even without any of these words. */
const sqlFiles = /^packages\/postgres\/src\/(?:calls|reads|operator)\//;
/** Files with texts for people. A text that contains one of the words above still counts. */
const messageFiles =
  /^packages\/postgres\/src\/(?:operator\/(?:explain\/(?:reasons|estimate|flow-waits)|status)|cron\/slots)\.ts$/;
/** Pure code, which has no driver to send a statement. */
const pure = /^packages\/(?:core|lab)\//;
/**
 * Tags and functions of kysely and drizzle that put `${x}` into the text; elsewhere these libraries make it a
 * parameter.
 */
const rawParts = new Set(['raw', 'lit', 'ref', 'table', 'id', 'identifier', 'unsafe']);
/** Names of functions and variables whose texts are for people. */
const spoken =
  /^(?:problems|problem|refuse|says|text|warn|note|Error|[A-Z]\w*Error|\w*[Pp]roblems?|\w*Text)$/;

/** Returns everything in the packages' sources that is spliced into a statement, except the schema's name. */
export function splicedIn(root: string): readonly Spliced[] {
  const files = globSync(['packages/*/src/**/*.ts', 'bench/src/**/*.ts'], { cwd: root });
  return files
    .map((file) => file.split(sep).join('/'))
    .filter((file) => !/\.test\.ts$|\/testing\//.test(file) && !pure.test(file))
    .toSorted()
    .flatMap((file) => splicedInText(file, readFileSync(join(root, file), 'utf8')));
}

/** Returns the same for one file's text. */
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

/** True for the schema's name, which `checkSchemaName` checks before it is used. */
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
