/** Oldest supported Node, as in `engines` of package.json, which npm only warns about. */
const oldest = { major: 22, minor: 12 };

/** Describes the problem in one line if this Node is too old; undefined otherwise. */
export function nodeProblem(version: string): string | undefined {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > oldest.major || (major === oldest.major && minor >= oldest.minor)) return undefined;
  return `this is Node ${version}, and pgqueue needs Node ${oldest.major}.${oldest.minor} or newer: install one (https://nodejs.org), or put it first on PATH`;
}
