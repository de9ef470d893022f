import { defineTask } from '@pgqueue/core';
import { z } from 'zod';

export const nothing = defineTask({ name: 'nothing', payload: z.object({ n: z.int() }) });
