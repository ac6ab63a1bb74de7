// The steps behind one token: who proposed what, what the policy saw of it, and what it decided.

import type { Colours } from "./colours";
import { el, table } from "./dom";
import type { Step } from "./types";

export function stepTable(steps: Step[], colours: Colours): HTMLElement {
  if (steps.length === 0) {
    return el("p", { class: "hint" }, "No steps were told with this token.");
  }
  const rows = steps.map((step) => [
    el("span", {}, el("span", { class: `swatch ${colours.class(step.model)}` }), step.model),
    el("code", {}, JSON.stringify(step.token)),
    signals(step.signals),
    decision(step),
  ]);
  return el("div", { class: "scroll" }, table("Steps behind the token", ["model", "candidate", "signals", "decision"], rows));
}

function signals(all: Step["signals"]): string {
  const entries = Object.entries(all).map(([name, value]) => `${name} ${shown(value)}`);
  return entries.length > 0 ? entries.join(", ") : "none asked for";
}

function shown(value: number | number[] | null): string {
  if (value === null) {
    return "not a number";
  }
  if (Array.isArray(value)) {
    return `[${value.slice(0, 4).map(rounded).join(", ")}${value.length > 4 ? ", …" : ""}]`;
  }
  return rounded(value);
}

/** Three digits that mean something. */
export function rounded(value: number): string {
  if (value === 0 || Number.isInteger(value)) {
    return String(value);
  }
  return Math.abs(value) < 0.001 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}

function decision(step: Step): string {
  const kept = step.committed ? "kept" : "discarded";
  return step.to === step.model ? `${kept}, ${step.model} goes on` : `${kept}, handed to ${step.to}`;
}
