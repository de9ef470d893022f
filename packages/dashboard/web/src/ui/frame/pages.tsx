import type { ComponentType, ReactNode } from 'react';
import { useEffect, useRef } from 'react';
import { Route, Switch, useLocation } from 'wouter';
import { To } from '../text.tsx';
import { Empty } from './answer.tsx';
import { Boundary } from './boundary.tsx';
import { Page } from './page.tsx';
import type { ShellProps } from './shell.tsx';
import { Shell } from './shell.tsx';
import { Shortcuts } from './shortcuts.tsx';

interface PagesProps extends Omit<ShellProps, 'children'> {
  readonly pages: Readonly<Record<string, ComponentType>>;
  /** Text of the link to the first page, where there is no page. */
  readonly home: string;
}

/** Pages by their paths, in their frame. */
export function Pages({ entries, who, count, pages, home }: PagesProps): ReactNode {
  const [path] = useLocation();
  useHeadingFocus(path);
  return (
    <Shell entries={entries} who={who} count={count}>
      <Shortcuts entries={entries} />
      <Boundary key={path}>
        <Switch>
          {Object.entries(pages).map(([path, component]) => (
            <Route key={path} path={path} component={component} />
          ))}
          <Route>
            <Page title="Not found">
              <Empty title="There is no such page">
                <To to="/">{home}</To>
              </Empty>
            </Page>
          </Route>
        </Switch>
      </Boundary>
    </Shell>
  );
}

/** Focuses the heading after navigation, so that screen readers announce the page. */
function useHeadingFocus(path: string): void {
  const shown = useRef(path);
  useEffect(() => {
    if (shown.current === path) return;
    shown.current = path;
    document.querySelector<HTMLElement>('main h1')?.focus();
  }, [path]);
}
