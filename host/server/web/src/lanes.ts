// Draws steps over time: a lane a model, a box a step, and before it a line for the wait of the first of its batch.

import type { SeenStep } from "./steps_store";

export interface Lane {
  name: string;
  place: number;
  steps: SeenStep[];
}

const LANE_HEIGHT = 76;
const TEXT_HEIGHT = 18;
const AXIS_HEIGHT = 18;

export function draw(
  canvas: HTMLCanvasElement,
  lanes: Lane[],
  window: { from: number; to: number },
  picked: { lane: number; number: number } | undefined,
): void {
  const height = lanes.length * LANE_HEIGHT + AXIS_HEIGHT;
  const ratio = devicePixelRatio || 1;
  const width = canvas.clientWidth;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  if (context === null || width === 0) {
    return;
  }
  context.scale(ratio, ratio);
  const style = getComputedStyle(canvas);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const x = (time: number) => ((time - window.from) / (window.to - window.from)) * width;
  context.font = "12px system-ui, sans-serif";
  const rowsMax = Math.max(1, ...lanes.flatMap((lane) => lane.steps.map((step) => step.rows)));
  lanes.forEach((lane, index) => {
    const base = (index + 1) * LANE_HEIGHT;
    const room = LANE_HEIGHT - TEXT_HEIGHT - 6;
    context.fillStyle = colour("--soft");
    context.fillText(`${lane.name}${lane.steps.length === 0 ? ": no step in this window" : ""}`, 2, base - LANE_HEIGHT + 13);
    context.fillRect(0, base - 1, width, 1);
    const own = colour(`--m${lane.place % 8}`);
    for (const step of lane.steps) {
      const left = x(step.start);
      const high = Math.max(3, (step.rows / rowsMax) * room);
      if (step.wait > 0) {
        context.fillStyle = own;
        context.globalAlpha = 0.45;
        const from = Math.max(0, x(step.start - step.wait));
        context.fillRect(from, base - 5, Math.max(0, left - from), 3);
        context.globalAlpha = 1;
      }
      const wide = Math.max(1, x(step.end) - left - 0.75);
      const isPicked = picked?.lane === index && picked.number === step.number;
      context.fillStyle = isPicked ? colour("--ink") : own;
      context.fillRect(left, base - 1 - high, wide, high);
      if (wide > 16 && high > 14) {
        context.fillStyle = colour("--card");
        context.fillText(String(step.rows), Math.max(left, 0) + 4, base - 5);
      }
    }
  });
  axis(context, window, width, height, colour("--soft"));
}

/** Time before the newest step's end, in milliseconds. */
function axis(context: CanvasRenderingContext2D, window: { from: number; to: number }, width: number, height: number, ink: string): void {
  context.fillStyle = ink;
  const span = window.to - window.from;
  for (let part = 0; part < 4; part += 1) {
    const before = (span * (4 - part)) / 4 / 1000;
    context.fillText(`−${before} ms`, (part / 4) * width + 2, height - 4);
    context.fillRect((part / 4) * width, height - AXIS_HEIGHT, 1, 5);
  }
}
