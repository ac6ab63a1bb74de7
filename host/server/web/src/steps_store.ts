// The steps that the page has seen of one model, oldest first, as many as it can draw.

import type { Steps } from "./types";

export interface SeenStep {
  number: number;
  start: number;
  end: number;
  rows: number;
  tokens: number;
  wait: number;
  left: number;
}

const STEPS_MAX = 20_000;

export class StepStore {
  readonly steps: SeenStep[] = [];

  get last(): number {
    return this.steps.at(-1)?.number ?? 0;
  }

  push(columns: Steps): void {
    columns.number.forEach((number, index) => {
      const at = (column: number[]) => column[index] ?? 0;
      const start = at(columns.started_us);
      this.steps.push({
        number,
        start,
        end: start + at(columns.took_us),
        rows: at(columns.rows),
        tokens: at(columns.tokens),
        wait: at(columns.wait_us_max),
        left: at(columns.left_waiting),
      });
    });
    this.steps.splice(0, Math.max(0, this.steps.length - STEPS_MAX));
  }

  /** The steps that a window shows a part of, or the waits before them. */
  within(from: number, to: number): SeenStep[] {
    let first = this.steps.length;
    // Steps of one model follow each other, so the rest is older still.
    while (first > 0 && (this.steps[first - 1]?.end ?? 0) >= from) {
      first -= 1;
    }
    return this.steps.slice(first).filter((step) => step.start - step.wait <= to);
  }
}

/** Means over some steps, for a line of text. */
export function summary(steps: SeenStep[]): { steps: number; batch: number; wait_ms: number; step_ms: number } {
  const mean = (of: (step: SeenStep) => number) =>
    steps.length === 0 ? 0 : steps.reduce((sum, step) => sum + of(step), 0) / steps.length;
  return {
    steps: steps.length,
    batch: mean((step) => step.rows),
    wait_ms: mean((step) => step.wait) / 1000,
    step_ms: mean((step) => step.end - step.start) / 1000,
  };
}
