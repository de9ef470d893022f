/** The compose topology under test: through any Docker-compatible engine, and compose v2 or docker-compose 1.29. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { getContainerRuntimeClient } from 'testcontainers';
import type { ContainerRuntimeClient } from 'testcontainers';

const files = ['../../docker/compose.yaml', 'addresses.yaml'].flatMap((name) => [
  '-f',
  fileURLToPath(new URL(name, import.meta.url)),
]);
const pollMs = 100;

export interface State {
  readonly running: boolean;
  readonly exitCode: number;
  /** `starting`, `healthy`, `unhealthy`; undefined without a health check. */
  readonly health: string | undefined;
  readonly image: string;
  readonly user: string;
}

export interface Output {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Topology {
  /** Runs compose and returns its standard output. @throws with its output where it fails */
  readonly compose: (...args: readonly string[]) => Promise<string>;
  readonly state: (service: string) => Promise<State>;
  readonly exec: (service: string, ...command: readonly string[]) => Promise<Output>;
  readonly logs: (service: string) => Promise<string>;
  readonly kill: (service: string) => Promise<void>;
  /** Rows of one column or more, as JSON, from psql inside the database's container. */
  readonly query: <Row>(sql: string) => Promise<readonly Row[]>;
  readonly imageBytes: (name: string) => Promise<number>;
  /** How many containers of the project there are, running or not. */
  readonly containers: () => Promise<number>;
  /** Takes everything down that is there. */
  readonly close: () => Promise<void>;
}

/** @throws where no container engine answers, or there is no compose */
export async function openTopology(
  project: string,
  env: Readonly<Record<string, string>>,
): Promise<Topology> {
  const client = await getContainerRuntimeClient();
  const [command, ...prefix] = composeCommand();
  const net = `10.213.${process.pid % 256}`;
  const network = await client.container.dockerode.createNetwork({
    Name: project,
    IPAM: { Config: [{ Subnet: `${net}.0/24` }] },
  });
  const environment = {
    ...process.env,
    ...env,
    PGQUEUE_TEST_NET: net,
    PGQUEUE_TEST_NETWORK: project,
  };
  const compose: Topology['compose'] = (...args) =>
    run(command, [...prefix, '-p', project, ...files, ...args], environment);
  const exec: Topology['exec'] = async (service, ...command) => {
    const container = await find(client, project, service);
    return client.container.exec(container, [...command], { log: false });
  };
  const state: Topology['state'] = async (service) => {
    const { State, Config } = await (await find(client, project, service)).inspect();
    return {
      running: State.Running,
      exitCode: State.ExitCode,
      health: State.Health?.Status,
      image: Config.Image,
      user: Config.User,
    };
  };
  return {
    compose,
    state,
    exec,
    logs: async (service) => {
      const container = await find(client, project, service);
      return (await container.logs({ stdout: true, stderr: true })).toString('utf8');
    },
    kill: async (service) => {
      await (await find(client, project, service)).kill({ signal: 'SIGKILL' });
      await until(`${service} to be dead`, 10, async () => !(await state(service)).running);
    },
    query: async <Row>(sql: string) => {
      const wrapped = `select coalesce(json_agg(r), '[]') from (${sql}) r`;
      const psql = ['psql', '-U', 'pgqueue', '-XqtA', '-v', 'ON_ERROR_STOP=1', '-c', wrapped];
      const { exitCode, stdout, stderr } = await exec('postgres', ...psql);
      if (exitCode !== 0) throw new Error(`psql: ${stderr || stdout}`);
      return JSON.parse(stdout) as readonly Row[];
    },
    imageBytes: async (name) => (await client.container.dockerode.getImage(name).inspect()).Size,
    containers: async () => (await list(client, [`com.docker.compose.project=${project}`])).length,
    close: async () => {
      await compose('down', '-v', '-t', '5');
      await network.remove();
    },
  };
}

/** The plug-in where there is one, else the stand-alone program. */
function composeCommand(): readonly [string, ...string[]] {
  const plugin = spawnSync('docker', ['compose', 'version']);
  if (plugin.status === 0) return ['docker', 'compose'];
  const alone = spawnSync('docker-compose', ['version']);
  if (alone.status === 0) return ['docker-compose'];
  throw new Error('neither "docker compose" nor "docker-compose" is installed');
}

async function run(command: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<string> {
  const child = spawn(command, [...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString('utf8')));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString('utf8')));
  const [code] = (await once(child, 'close')) as [number | null];
  if (code === 0) return stdout;
  throw new Error(`${command} ${args.join(' ')} ended with ${code}:\n${stdout}\n${stderr}`);
}

type Container = ReturnType<ContainerRuntimeClient['container']['getById']>;

function list(client: ContainerRuntimeClient, label: readonly string[]) {
  return client.container.dockerode.listContainers({ all: true, filters: { label: [...label] } });
}

async function find(client: ContainerRuntimeClient, project: string, service: string): Promise<Container> {
  const [found] = await list(client, [
    `com.docker.compose.project=${project}`,
    `com.docker.compose.service=${service}`,
  ]);
  if (found === undefined) throw new Error(`${service} has no container`);
  return client.container.getById(found.Id);
}

/** Waits for a condition; what it throws meanwhile is only reported when time is up. */
export async function until(what: string, seconds: number, condition: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + seconds * 1_000;
  for (let cause: unknown; ; await delay(pollMs)) {
    try {
      if (await condition()) return;
    } catch (error) {
      cause = error;
    }
    if (Date.now() > deadline) throw new Error(`waited ${seconds} s in vain for ${what}`, { cause });
  }
}
