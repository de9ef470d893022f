import type { PointerEvent, RefObject } from 'react';
import { useRef } from 'react';

interface Drag {
  readonly onPointerDown: (event: PointerEvent) => void;
  readonly onPointerMove: (event: PointerEvent) => void;
  readonly onPointerUp: (event: PointerEvent) => void;
}

interface Grip {
  readonly pointer: number;
  readonly x: number;
  readonly y: number;
}

/** Moves a scrolled element's content with the mouse, taken at its ground. Fingers scroll by themselves. */
export function useDrag(element: RefObject<HTMLElement | null>): Drag {
  const grip = useRef<Grip>(undefined);
  return {
    onPointerDown: ({ pointerType, button, pointerId, clientX, clientY, target }) => {
      const { current } = element;
      const isGround = target instanceof Element && target.closest('[role=option]') === null;
      if (current === null || pointerType !== 'mouse' || button !== 0 || !isGround) return;
      grip.current = { pointer: pointerId, x: current.scrollLeft + clientX, y: current.scrollTop + clientY };
      current.setPointerCapture(pointerId);
    },
    onPointerMove: ({ pointerId, clientX, clientY }) => {
      if (grip.current?.pointer !== pointerId) return;
      element.current?.scrollTo(grip.current.x - clientX, grip.current.y - clientY);
    },
    onPointerUp: () => {
      grip.current = undefined;
    },
  };
}
