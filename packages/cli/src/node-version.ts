/** The oldest Node that runs these packages, as "engines" in package.json says: npm only warns of it. */
const oldest = { major: 22, minor: 12 };

/** Says in one line that this Node is too old. Undefined: it is not. */
export function nodeProblem(version: string): string | undefined {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > oldest.major || (major === oldest.major && minor >= oldest.minor)) return undefined;
  return `this is Node ${version}, and pgqueue needs Node ${oldest.major}.${oldest.minor} or newer: install one (https://nodejs.org), or put it first on PATH`;
}
