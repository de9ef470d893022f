import { describe, expect, test } from 'vitest';
import { isQueryTimeout, isTransient, sqlState } from './pg-errors.ts';

const coded = (code: string, message = ''): Error => Object.assign(new Error(message), { code });

describe('sqlState', () => {
  test('of an error, or of its causes, four deep', () => {
    expect(sqlState(coded('23505'))).toBe('23505');
    expect(sqlState(new Error('driver', { cause: new Error('query', { cause: coded('PQ001') }) }))).toBe(
      'PQ001',
    );
    expect(sqlState('23505')).toBeUndefined();
    expect(sqlState(null)).toBeUndefined();
  });

  test.each(['EPIPE', 'EBUSY', 'ECONNRESET', 'P1', '2350', '23505x'])('%s is none', (code) => {
    expect(sqlState(coded(code))).toBeUndefined();
  });
});

describe('isTransient', () => {
  test.each([
    ...['08006', '53300', '57P01', '57P03', '40001', '40P01', '55P03', '25006', '57014'].map((code) =>
      coded(code),
    ),
    ...['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND'].map((code) => coded(code)),
    new Error('Connection terminated unexpectedly'),
    new Error('Query read timeout'),
    new Error('timeout exceeded when trying to connect'),
    new Error('Client has encountered a connection error and is not queryable'),
    new Error('wrapped', { cause: coded('40001') }),
  ])('yes: %s', (error) => {
    expect(isTransient(error)).toBe(true);
  });

  test.each([
    ...['23505', '42501', '42P01', '22023', '22P05', 'PQ001', 'PQ002', '25001'].map((code) =>
      coded(code, 'connection closed'),
    ),
    new Error('handler failed'),
    'text',
    undefined,
  ])('no: %s', (error) => {
    expect(isTransient(error)).toBe(false);
  });
});

test('a query timeout is known by its message, as pg gives it no code', () => {
  expect(isQueryTimeout(new Error('Query read timeout'))).toBe(true);
  expect(isQueryTimeout(coded('57014'))).toBe(false);
});
