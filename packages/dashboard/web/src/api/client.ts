import type { ApiError, ApiErrorCode, Session } from '../../../src/contract.ts';
import { renewalHeader } from '../../../src/contract/renewal.ts';
import { mount } from './mount.ts';

/** Error answered by the server; `network`: the server did not answer. */
export class ApiProblem extends Error {
  readonly code: ApiErrorCode | 'network';
  readonly problems: readonly string[];

  constructor(code: ApiErrorCode | 'network', message: string, problems: readonly string[] = []) {
    super(problems.length > 0 ? `${message}: ${problems.join('; ')}` : message);
    this.name = 'ApiProblem';
    this.code = code;
    this.problems = problems;
  }
}

export type Query = Readonly<Record<string, string | number | undefined>>;

/** Builds the address of a path below the mount, with the given parameters. An empty text counts as given. */
export function address(path: string, query: Query = {}): string {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)]],
  );
  const text = new URLSearchParams(given).toString();
  return `${mount}/api/${path}${text === '' ? '' : `?${text}`}`;
}

/** Options of a read. */
export interface Asking {
  readonly signal?: AbortSignal;
  /** The page has an answer already; the server may return what it read for another tab a moment ago. */
  readonly isRenewal?: boolean;
}

/**
 * Milliseconds after an action in which every read is anew. On a busy machine the server keeps an answer for up to 20 s, and the
 * one it reads right after the action has only the first of its effects: a job that is due, and not yet done.
 */
const watchedMs = 10_000;

let actedAt = -Infinity;

export async function get<Answer>(path: string, query: Query = {}, asking: Asking = {}): Promise<Answer> {
  const { signal, isRenewal = false } = asking;
  const fromCache = isRenewal && performance.now() - actedAt >= watchedMs;
  return ask<Answer>(address(path, query), {
    headers: { accept: 'application/json', ...(fromCache ? { [renewalHeader]: '1' } : {}) },
    ...(signal ? { signal } : {}),
  });
}

let session: Promise<Session> | undefined;

/**
 * Reads the user and the CSRF token, which every action must send. The result is kept until an action is
 * refused for its token.
 */
export async function readSession(anew: boolean = false): Promise<Session> {
  if (anew) session = undefined;
  session ??= get<Session>('session');
  try {
    return await session;
  } catch (error) {
    session = undefined;
    throw error;
  }
}

/** Runs an action. If it is refused for its token, it is repeated once with a new one. */
export async function post<Answer>(path: string, body: unknown): Promise<Answer> {
  try {
    return await postOnce<Answer>(path, body, false);
  } catch (error) {
    if (!(error instanceof ApiProblem) || error.code !== 'csrf') throw error;
    return await postOnce<Answer>(path, body, true);
  } finally {
    actedAt = performance.now();
  }
}

async function postOnce<Answer>(path: string, body: unknown, anew: boolean): Promise<Answer> {
  const { csrf } = await readSession(anew);
  return ask<Answer>(address(path), {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json', 'x-pgqueue-csrf': csrf },
    body: JSON.stringify(body),
  });
}

async function ask<Answer>(url: string, init: RequestInit): Promise<Answer> {
  let response: Response;
  try {
    response = await fetch(url, { credentials: 'same-origin', ...init });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiProblem('network', 'the dashboard’s server does not answer');
  }
  if (response.ok) return (await response.json()) as Answer;
  throw await toProblem(response);
}

async function toProblem(response: Response): Promise<ApiProblem> {
  try {
    const { error } = (await response.json()) as ApiError;
    return new ApiProblem(error.code, error.message, error.problems ?? []);
  } catch {
    return new ApiProblem('internal', `the server answered with ${response.status} and no reason`);
  }
}
