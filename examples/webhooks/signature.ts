import { createHmac, timingSafeEqual } from 'node:crypto';

const secret = 'the secret that the shop and the receiver share';

export function sign(body: string): string {
  return createHmac('sha256', secret).update(body).digest('hex');
}

export function isSigned(body: string, signature: string | undefined): boolean {
  const expected = Buffer.from(sign(body));
  const given = Buffer.from(signature ?? '');
  return expected.length === given.length && timingSafeEqual(expected, given);
}
