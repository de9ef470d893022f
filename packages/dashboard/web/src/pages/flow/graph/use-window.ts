import type { RefObject } from 'react';
import { useEffect, useState } from 'react';
import type { Box } from './layout.ts';

/** Pixels by which the window moves at a time, and which it shows around the visible part. */
const stride = 256;

/**
 * Returns the part of a scrolled element's content to render: the visible one and a margin. It changes only
 * every 256 pixels, so that most scrolling renders nothing.
 */
export function useWindow(element: RefObject<HTMLElement | null>): Box {
  const [box, setBox] = useState<Box>({ left: 0, top: 0, right: 6 * stride, bottom: 4 * stride });
  useEffect(() => {
    const { current } = element;
    if (current === null) return undefined;
    const measure = (): void => {
      const next = around(current);
      setBox((box) => (isSame(box, next) ? box : next));
    };
    measure();
    current.addEventListener('scroll', measure, { passive: true });
    const observer = new ResizeObserver(measure);
    observer.observe(current);
    return () => {
      current.removeEventListener('scroll', measure);
      observer.disconnect();
    };
  }, [element]);
  return box;
}

function around({ scrollLeft, scrollTop, clientWidth, clientHeight }: HTMLElement): Box {
  const down = (at: number): number => Math.max(0, (Math.floor(at / stride) - 1) * stride);
  const up = (at: number): number => (Math.ceil(at / stride) + 1) * stride;
  return {
    left: down(scrollLeft),
    top: down(scrollTop),
    right: up(scrollLeft + clientWidth),
    bottom: up(scrollTop + clientHeight),
  };
}

function isSame(a: Box, b: Box): boolean {
  return a.left === b.left && a.top === b.top && a.right === b.right && a.bottom === b.bottom;
}
