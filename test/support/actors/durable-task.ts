import { defineTask } from '@pgqueue/core';
import { z } from 'zod';

export const durableTask = defineTask({ name: 'durable', payload: z.object({}), timeout: '1h' });
