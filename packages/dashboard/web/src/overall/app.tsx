import type { ReactNode } from 'react';
import { Route, Switch, useLocation } from 'wouter';
import { useInstallations } from '../api/queries.ts';
import { useHeadingFocus } from '../app.tsx';
import { visible } from '../format/text.ts';
import { Empty } from '../ui/frame/answer.tsx';
import { Boundary } from '../ui/frame/boundary.tsx';
import { Page } from '../ui/frame/page.tsx';
import type { Entry } from '../ui/frame/shell.tsx';
import { Shell } from '../ui/frame/shell.tsx';
import { Shortcuts } from '../ui/frame/shortcuts.tsx';
import { IconStack2 } from '../ui/icons.ts';
import { To } from '../ui/text.tsx';
import { FindPage } from './find.tsx';
import { InstallationsPage } from './installations.tsx';

const entries: readonly Entry[] = [{ to: '/', name: 'Installations', letter: 'i', icon: IconStack2 }];

/** The pages over several installations. */
export function OverallApp(): ReactNode {
  const [path] = useLocation();
  useHeadingFocus(path);
  return (
    <Shell entries={entries} who={<Who />} count={Down}>
      <Shortcuts entries={entries} />
      <Boundary key={path}>
        <Switch>
          <Route path="/" component={InstallationsPage} />
          <Route path="/jobs/:id" component={FindPage} />
          <Route path="/flows/:id" component={FindPage} />
          <Route>
            <Page title="Not found">
              <Empty title="There is no such page">
                <To to="/">Go to all installations</To>
              </Empty>
            </Page>
          </Route>
        </Switch>
      </Boundary>
    </Shell>
  );
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
