import type { ComponentType, ReactNode } from 'react';
import { useInstallations } from '../api/queries.ts';
import { visible } from '../format/text.ts';
import { Pages } from '../ui/frame/pages.tsx';
import type { Entry } from '../ui/frame/shell.tsx';
import { IconStack2 } from '../ui/icons.ts';
import { FindPage } from './find.tsx';
import { InstallationsPage } from './installations.tsx';

const entries: readonly Entry[] = [{ to: '/', name: 'Installations', letter: 'i', icon: IconStack2 }];

const pages: Readonly<Record<string, ComponentType>> = {
  '/': InstallationsPage,
  '/jobs/:id': FindPage,
  '/flows/:id': FindPage,
};

/** The pages over several installations. */
export function OverallApp(): ReactNode {
  return <Pages entries={entries} who={<Who />} count={Down} pages={pages} home="Go to all installations" />;
}

function Who(): ReactNode {
  const { data } = useInstallations();
  if (data === undefined) return null;
  const { actor, version } = data;
  return (
    <span title={`pgqueue ${version}`}>
      <bdi>{visible(actor.name)}</bdi> · {actor.role}
    </span>
  );
}

function Down(): ReactNode {
  const { data } = useInstallations();
  const down = data === undefined ? 0 : data.installations.length - data.totals.answered;
  return down === 0 ? null : `${down} down`;
}
