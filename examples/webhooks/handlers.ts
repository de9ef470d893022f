import { giveUp, implement } from '@pgqueue/core';
import { sign } from './signature.ts';
import { deliverWebhook } from './tasks.ts';

/** Delivers one event. The task's retry policy retries a handler that throws; 410 Gone is final. */
export const handleWebhook = implement(deliverWebhook, async (payload, { signal }) => {
  const body = JSON.stringify({ event: payload.event, ...payload.body });
  const response = await fetch(payload.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-signature': sign(body) },
    body,
    signal,
  });
  await response.arrayBuffer();
  if (response.status === 410) return giveUp(new Error('410 Gone: the endpoint no longer exists'));
  if (!response.ok) throw new Error(`the endpoint answered ${response.status}`);
  return { status: response.status };
});
