// A policy's options that a request may set: a slider each, within the operator's bounds.

import { el } from "./dom";
import type { Info, Policy } from "./types";

/** The bounds of an option's slider: the operator's, and where there is none, what makes sense around the value in force. */
export function bounds(value: number, allowed: Info["request_options"][string] | undefined): { min: number; max: number } {
  const given = typeof allowed === "object" ? allowed : { min: null, max: null };
  const min = given.min ?? Math.min(0, value);
  const max = given.max ?? (value <= 1 ? 1 : 4 * value);
  return { min, max: Math.max(min, max) };
}

export class Options {
  readonly element = el("div", { class: "options" });
  private readonly chosen = new Map<string, number>();

  constructor(
    private readonly side: string,
    private readonly info: Info,
  ) {}

  /** Shows the options of a policy; those of another one are forgotten. */
  show(policy: Policy | undefined): void {
    this.chosen.clear();
    const names = (policy?.options_per_request ?? []).filter((name) => this.info.request_options[name] !== false);
    const numbers = names.flatMap((name) => {
      const value = policy?.options[name];
      return typeof value === "number" ? [this.slider(name, value)] : [];
    });
    const none = policy === undefined ? "One model alone: nothing is routed." : "No number of this policy may be set by requests.";
    this.element.replaceChildren(...(numbers.length > 0 ? numbers : [el("p", { class: "hint" }, none)]));
  }

  /** What was moved away from the value in force. */
  values(): Record<string, number> {
    return Object.fromEntries(this.chosen);
  }

  private slider(name: string, value: number): HTMLElement {
    const { min, max } = bounds(value, this.info.request_options[name]);
    const id = `${this.side}-${name}`;
    const range = { min: String(min), max: String(max), step: String((max - min) / 200 || 0.001), value: String(value) };
    const slider = el("input", { type: "range", id, ...range });
    // Beyond the slider's ends there may be values that the policy takes; the server says which it does not.
    const number = el("input", { type: "number", "aria-label": `${name}, as a number`, step: "any", value: String(value) });
    const note = el("span", { class: "hint" }, "in force");
    const set = (text: string) => {
      const given = Number(text);
      if (text === "" || given === value) {
        this.chosen.delete(name);
      } else {
        this.chosen.set(name, given);
      }
      note.textContent = this.chosen.has(name) ? `for this request; ${value} in force` : "in force";
    };
    slider.addEventListener("input", () => {
      number.value = slider.value;
      set(slider.value);
    });
    number.addEventListener("input", () => {
      slider.value = number.value;
      set(number.value);
    });
    return el("div", { class: "option" }, el("label", { for: id }, name), slider, number, note);
  }
}
