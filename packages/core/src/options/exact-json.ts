/** A number of JSON text that a double can't hold. Its message says which, and what to do. */
export class InexactNumber extends Error {
  override readonly name = 'InexactNumber';
}

type Reviver = Parameters<typeof JSON.parse>[1];

/**
 * Parses JSON. Refuses a number that a double can't hold: 1e400 would be stored as null, and 9007199254740993 as …992.
 * @throws {InexactNumber}
 * @throws {SyntaxError} it is no JSON
 */
export function exactJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (mayChange.test(text)) JSON.parse(text, refuseChanged as Reviver);
  return value;
}

/** A double holds any number of 15 digits, with an exponent of two. Few texts have more, and those are read twice. */
const mayChange = /[\d.]{16}|e[-+]?\d{3}/i;

/**
 * Reviver that refuses such numbers. TypeScript's types do not declare the third argument, which has the
 * source text of a primitive.
 */
function refuseChanged(name: string, value: unknown, { source }: { readonly source?: string }): unknown {
  if (typeof value !== 'number' || source === undefined || decimal(source) === decimal(String(value)))
    return value;
  const which = name === '' ? 'It is a number' : `Its number ${JSON.stringify(name)} is one`;
  throw new InexactNumber(`${which} that a double can't hold, and would be changed: give it as a text.`);
}

/** Normalizes a JSON number to its digits and a power of ten, so that 1200, 1.2e3 and 1200.0 are equal. */
function decimal(text: string): string {
  const [, sign = '', whole = '', fraction = '', power = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? [];
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const shortest = digits.replace(/0+$/, '');
  if (shortest === '') return whole === '' ? text : '0';
  return `${sign}${shortest}e${Number(power) - fraction.length + digits.length - shortest.length}`;
}
