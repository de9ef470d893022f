import type { CSSVariablesResolver, MantineColorsTuple } from '@mantine/core';
import {
  Anchor,
  Badge,
  Button,
  createTheme,
  Modal,
  NumberInput,
  Select,
  Switch,
  TextInput,
  Tooltip,
} from '@mantine/core';

/** Accent colour. Shade 6 on white and shade 4 on the dark ground have a contrast above 4.5 : 1. */
const iris: MantineColorsTuple = [
  '#eef0ff',
  '#dde0fb',
  '#b9bff3',
  '#949dec',
  '#7f88e8',
  '#666fdf',
  '#5159d1',
  '#444bb8',
  '#3a409f',
  '#2f3586',
];

/** White on shade 6 has a contrast above 4.5 : 1 as well. */
const red: MantineColorsTuple = [
  '#fff0f0',
  '#fddcdd',
  '#f8b4b6',
  '#f58b8e',
  '#ff7b7f',
  '#d94c50',
  '#c42b30',
  '#ab2227',
  '#8f1c20',
  '#73171b',
];

const dark: MantineColorsTuple = [
  '#d5d7dc',
  '#b4b7bf',
  '#9499a3',
  '#6b707b',
  '#33363e',
  '#26292f',
  '#1b1d22',
  '#141519',
  '#101114',
  '#0c0d0f',
];

export const theme = createTheme({
  primaryColor: 'iris',
  primaryShade: { light: 6, dark: 6 },
  colors: { iris, red, dark },
  fontFamily: 'Inter, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif',
  fontFamilyMonospace: 'ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, monospace',
  headings: { fontWeight: '600', sizes: { h1: { fontSize: '1.125rem', lineHeight: '1.75rem' } } },
  fontSizes: { xs: '0.75rem', sm: '0.8125rem', md: '0.875rem', lg: '1rem', xl: '1.25rem' },
  spacing: { xs: '0.375rem', sm: '0.625rem', md: '1rem', lg: '1.25rem', xl: '1.75rem' },
  defaultRadius: 'sm',
  cursorType: 'pointer',
  respectReducedMotion: true,
  components: {
    Anchor: Anchor.extend({ defaultProps: { underline: 'hover', fz: 'inherit' } }),
    Badge: Badge.extend({ defaultProps: { variant: 'light', radius: 'sm', tt: 'none', fw: 500 } }),
    Button: Button.extend({ defaultProps: { size: 'xs', fw: 500 } }),
    Modal: Modal.extend({
      defaultProps: {
        centered: true,
        closeButtonProps: { 'aria-label': 'Close' },
        transitionProps: { duration: 100 },
      },
    }),
    NumberInput: NumberInput.extend({ defaultProps: { size: 'xs', hideControls: true } }),
    Select: Select.extend({ defaultProps: { size: 'xs' } }),
    Switch: Switch.extend({ defaultProps: { size: 'xs' } }),
    TextInput: TextInput.extend({ defaultProps: { size: 'xs' } }),
    Tooltip: Tooltip.extend({ defaultProps: { openDelay: 300, withArrow: true, fz: 'xs' } }),
  },
});

const ours = {
  '--mantine-color-body': 'var(--ground)',
  '--mantine-color-text': 'var(--ink)',
  '--mantine-color-dimmed': 'var(--ink-faint)',
  '--mantine-color-placeholder': 'var(--ink-faint)',
  '--mantine-color-anchor': 'var(--accent)',
  '--mantine-color-default': 'var(--surface)',
  '--mantine-color-default-hover': 'var(--surface-raised)',
  '--mantine-color-default-border': 'var(--line)',
  '--mantine-color-default-color': 'var(--ink)',
  '--mantine-color-error': 'var(--bad)',
};

/** Maps Mantine's colours to the variables of base.css, which defines them for light and dark mode. */
export const resolver: CSSVariablesResolver = () => ({ variables: {}, light: ours, dark: ours });
