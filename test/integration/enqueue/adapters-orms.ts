import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { fromPrisma } from '@pgqueue/producer/prisma';
import type { PrismaLike } from '@pgqueue/producer/prisma';
import { fromTypeOrm } from '@pgqueue/producer/typeorm';
import { PrismaPg } from '@prisma/adapter-pg';
import { DataSource, EntitySchema } from 'typeorm';
import type { Library, NamedLibrary } from './adapters-library.ts';

/** What the test uses of a client that Prisma generates from this schema. */
interface PrismaTransaction extends PrismaLike {
  readonly invoice: { create(input: { readonly data: { readonly note: string } }): PromiseLike<unknown> };
}
interface PrismaClient extends PrismaTransaction {
  $transaction<Result>(work: (tx: PrismaTransaction) => Promise<Result>): Promise<Result>;
  $disconnect(): Promise<void>;
}
type PrismaModule = { readonly PrismaClient: new (options: { readonly adapter: PrismaPg }) => PrismaClient };

const prismaSchema = `
generator client {
  provider               = "prisma-client"
  output                 = "./client"
  runtime                = "nodejs"
  moduleFormat           = "esm"
  importFileExtension    = "ts"
  generatedFileExtension = "ts"
}

datasource db {
  provider = "postgresql"
}

model Invoice {
  id   Int    @id @default(autoincrement())
  note String

  @@map("invoice")
}
`;

/** Generates the client within the repository, where it finds its runtime. */
async function withPrismaClient<Result>(use: (module: PrismaModule) => Result): Promise<Result> {
  const parent = fileURLToPath(new URL('generated', import.meta.url));
  mkdirSync(parent, { recursive: true });
  const folder = mkdtempSync(join(parent, 'prisma-'));
  try {
    writeFileSync(join(folder, 'schema.prisma'), prismaSchema);
    const manifest = createRequire(import.meta.url).resolve('prisma/package.json');
    execFileSync(
      process.execPath,
      [join(dirname(manifest), 'build/index.js'), 'generate', '--schema', join(folder, 'schema.prisma')],
      {
        // The generator is JavaScript all through. The command insists on an engine for schema commands that it would
        // download; told that any file is one, it does not.
        env: { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' },
        stdio: 'pipe',
      },
    );
    return use((await import(pathToFileURL(join(folder, 'client/client.ts')).href)) as PrismaModule);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Generated once for all tests of a file, which takes some seconds. */
let prismaModule: Promise<PrismaModule> | undefined;

const openPrisma = async (connectionString: string): Promise<Library> => {
  const { PrismaClient } = await (prismaModule ??= withPrismaClient((generated) => generated));
  const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString }) });
  return {
    transaction: (work) =>
      prisma.$transaction((tx) =>
        work({ tx, executor: fromPrisma(tx), write: async (note) => tx.invoice.create({ data: { note } }) }),
      ),
    close: () => prisma.$disconnect(),
  };
};

interface Invoice {
  readonly id: number;
  readonly note: string;
}

const openTypeorm = async (url: string): Promise<Library> => {
  const invoice = new EntitySchema<Invoice>({
    name: 'invoice',
    columns: { id: { type: 'integer', primary: true, generated: true }, note: { type: 'text' } },
  });
  const source = new DataSource({ type: 'postgres', url, entities: [invoice] });
  await source.initialize();
  return {
    transaction: (work) =>
      source.transaction((manager) =>
        work({
          tx: manager,
          executor: fromTypeOrm(manager),
          write: (note) => manager.insert(invoice, { note }),
        }),
      ),
    close: () => source.destroy(),
  };
};

export const orms: readonly NamedLibrary[] = [
  { name: 'prisma', open: openPrisma },
  { name: 'typeorm', open: openTypeorm },
];
