import { UnstyledButton } from '@mantine/core';
import { IconPlayerPauseFilled, IconPlayerPlayFilled } from '../icons.ts';
import type { ReactNode } from 'react';
import type { Freshness } from '../../api/live.ts';
import { setPaused, useFreshness } from '../../api/live.ts';
import { visible } from '../../format/text.ts';
import classes from './live-state.module.css';
import type { Tone } from '../status.tsx';
import { Mark } from '../status.tsx';

const shown: Readonly<Record<Freshness['kind'], { readonly tone: Tone; readonly word: string }>> = {
  connecting: { tone: 'quiet', word: 'Connecting' },
  live: { tone: 'good', word: 'Live' },
  paused: { tone: 'warn', word: 'Paused' },
  reconnecting: { tone: 'warn', word: 'Reconnecting' },
  trouble: { tone: 'bad', word: 'No database' },
};

/** Shows whether the page is up to date. A click pauses updates, so that the page can be read. */
export function LiveState(): ReactNode {
  const freshness = useFreshness();
  const { tone, word } = shown[freshness.kind];
  const stopped = freshness.kind === 'paused';
  const Icon = stopped ? IconPlayerPlayFilled : IconPlayerPauseFilled;
  return (
    <UnstyledButton
      className={classes.state}
      onClick={() => setPaused(!stopped)}
      aria-label={`${word}. ${stopped ? 'Go on' : 'Pause'} updating`}
      title={freshness.kind === 'trouble' ? visible(freshness.message) : undefined}
      data-live={freshness.kind}
    >
      <Mark tone={tone}>{word}</Mark>
      <Icon size={12} aria-hidden />
    </UnstyledButton>
  );
}
