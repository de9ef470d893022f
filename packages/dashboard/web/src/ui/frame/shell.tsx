import { ActionIcon, AppShell, Burger, Group, Tooltip, useMantineColorScheme } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import {
  IconActivity,
  IconCalendarTime,
  IconDeviceDesktop,
  IconGauge,
  IconHeartbeat,
  IconHistory,
  IconList,
  IconMailX,
  IconMoon,
  IconScale,
  IconServer,
  IconSitemap,
  IconStack2,
  IconSun,
  IconUsers,
} from '../icons.ts';
import type { ComponentType, ReactNode } from 'react';
import { useEffect } from 'react';
import { Link, useLocation } from 'wouter';
import { installation, overallHref } from '../../api/mount.ts';
import { LiveState } from './live-state.tsx';
import classes from './shell.module.css';

/** A page in the side bar. */
export interface Entry {
  readonly to: string;
  /** Address beyond these pages, which is loaded as a new document. */
  readonly href?: string;
  readonly name: string;
  /** Shortcut key, after `g`. */
  readonly letter: string;
  readonly icon: ComponentType<{ readonly size?: number; readonly stroke?: number }>;
}

/** The pages of an installation. */
export const entries: readonly Entry[] = [
  ...(installation === undefined
    ? []
    : [
        {
          to: overallHref,
          href: overallHref,
          name: 'All installations',
          letter: 'i',
          icon: IconStack2,
        },
      ]),
  { to: '/', name: 'Overview', letter: 'o', icon: IconGauge },
  { to: '/keys', name: 'Keys', letter: 'k', icon: IconUsers },
  { to: '/queues', name: 'Queues', letter: 'q', icon: IconList },
  { to: '/jobs', name: 'Jobs', letter: 'j', icon: IconActivity },
  { to: '/flows', name: 'Flows', letter: 'f', icon: IconSitemap },
  { to: '/nodes', name: 'Nodes', letter: 'n', icon: IconServer },
  { to: '/dead', name: 'Dead letters', letter: 'd', icon: IconMailX },
  { to: '/schedules', name: 'Schedules', letter: 's', icon: IconCalendarTime },
  { to: '/policy', name: 'Policy', letter: 'p', icon: IconScale },
  { to: '/health', name: 'Health', letter: 'h', icon: IconHeartbeat },
  { to: '/audit', name: 'Audit', letter: 'a', icon: IconHistory },
];

function isAt(path: string, to: string): boolean {
  return to === '/' ? path === '/' : path === to || path.startsWith(`${to}/`);
}

export interface ShellProps {
  readonly entries: readonly Entry[];
  /** Name and role of the user. */
  readonly who: ReactNode;
  /** Renders the count of an entry. */
  readonly count: ComponentType<{ readonly to: string }>;
  readonly children: ReactNode;
}

/** Frame of every page, with navigation, live state and user. */
export function Shell({ entries, who, count: Count, children }: ShellProps): ReactNode {
  const [opened, { toggle, close }] = useDisclosure();
  const [path] = useLocation();
  useEffect(close, [path, close]);
  return (
    <AppShell
      header={{ height: { base: 48, sm: 0 } }}
      navbar={{ width: 208, breakpoint: 'sm', collapsed: { mobile: !opened } }}
      padding={{ base: 'sm', sm: 'lg' }}
      transitionDuration={0}
    >
      <a className={classes.skip} href="#main" onClick={skip}>
        Skip to the content
      </a>
      <AppShell.Header hiddenFrom="sm" className={classes.header}>
        <Burger opened={opened} onClick={toggle} size="sm" aria-label={opened ? 'Close menu' : 'Open menu'} />
        <Brand />
        <span className={classes.push} />
        <LiveState />
      </AppShell.Header>
      <AppShell.Navbar className={classes.navbar} aria-label="Pages">
        <div className={classes.brandRow}>
          <Brand />
        </div>
        <ul className={classes.entries}>
          {entries.map(({ to, href, name, icon: Icon }) => (
            <li key={to}>
              {href === undefined ? (
                <Link
                  to={to}
                  className={classes.entry}
                  onClick={close}
                  aria-current={isAt(path, to) ? 'page' : undefined}
                >
                  <Icon size={16} stroke={1.7} aria-hidden />
                  <span>{name}</span>
                  <span className={classes.count}>
                    <Count to={to} />
                  </span>
                </Link>
              ) : (
                <a href={href} className={classes.entry}>
                  <Icon size={16} stroke={1.7} aria-hidden />
                  <span>{name}</span>
                </a>
              )}
            </li>
          ))}
        </ul>
        <div className={classes.foot}>
          <div className={classes.wide}>
            <LiveState />
          </div>
          <Group gap="xs" justify="space-between" wrap="nowrap">
            <span className={classes.who}>{who}</span>
            <SchemeToggle />
          </Group>
        </div>
      </AppShell.Navbar>
      <AppShell.Main id="main" className={classes.main} tabIndex={-1}>
        {children}
      </AppShell.Main>
    </AppShell>
  );
}

/** Moves the focus by script: with a base address, a link to `#main` would lead to another page. */
function skip(event: { preventDefault(): void }): void {
  event.preventDefault();
  document.querySelector<HTMLElement>('#main')?.focus();
}

function Brand(): ReactNode {
  return (
    <span className={classes.brand}>
      <img src="./icon.svg" alt="" width={20} height={20} />
      pgqueue
      {installation !== undefined && <span className={classes.installation}>{installation}</span>}
    </span>
  );
}

const schemes = { auto: 'light', light: 'dark', dark: 'auto' } as const;
const schemeNames = { auto: 'as the system', light: 'light', dark: 'dark' } as const;
const schemeIcons = { auto: IconDeviceDesktop, light: IconSun, dark: IconMoon } as const;

function SchemeToggle(): ReactNode {
  const { colorScheme, setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  const Icon = schemeIcons[colorScheme];
  const says = `Colours: ${schemeNames[colorScheme]}`;
  return (
    <Tooltip label={says}>
      <ActionIcon
        variant="subtle"
        color="gray"
        size="md"
        aria-label={`${says}. Change`}
        onClick={() => setColorScheme(schemes[colorScheme])}
      >
        <Icon size={16} stroke={1.7} aria-hidden />
      </ActionIcon>
    </Tooltip>
  );
}
