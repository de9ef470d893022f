/** Declares single icons: the library's own types are one file of 7 MB, which slows type checkers down. */
declare module '@tabler/icons-react/dist/esm/icons/*.mjs' {
  import type { ComponentType } from 'react';

  const icon: ComponentType<{
    readonly size?: number;
    readonly stroke?: number;
    readonly 'aria-hidden'?: boolean;
  }>;
  export default icon;
}
