// The policies that are served, as /info tells them.

import { el, table } from "./dom";
import type { Info, OptionValue } from "./types";

export function policiesTable(info: Info): HTMLElement {
  if (info.policies.length === 0) {
    return el("p", {}, "None: the first model answers alone.");
  }
  const rows = info.policies.map((policy, index) => [
    el("span", {}, el("strong", {}, policy.name), index === 0 ? " default" : ""),
    policy.generation,
    policy.version,
    policy.summary,
    optionsText(policy.options),
  ]);
  return table("Policies served", ["policy", "generation", "version", "what it does", "options in force"], rows);
}

/** `name value` for each. */
export function optionsText(options: Record<string, OptionValue>): string {
  const given = Object.entries(options).filter(([, value]) => value !== "");
  const entries = given.map(([name, value]) => `${name} ${Array.isArray(value) ? JSON.stringify(value) : value}`);
  return entries.length > 0 ? entries.join(", ") : "none";
}
