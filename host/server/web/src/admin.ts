// The page of policies, at the admin listener: what there is, what routes, and the changes that an operator makes.

import { Api, explain, HttpError } from "./api";
import { byId, el, facts, show, table } from "./dom";
import { optionsText } from "./policies";
import type { OptionValue } from "./types";

const LOOK_MS = 2000;

interface Named {
  policy: string;
  generation: number;
}

interface Trial extends Named {
  share: number;
  comparison?: { steps: number; disagreements: number };
}

interface Overview {
  default: Named | null;
  canary: Trial | null;
  shadow: Trial | null;
  former: Named[];
  persists: boolean;
  policies: {
    name: string;
    active: number | null;
    generations: { generation: number; sha256: string; options: Record<string, OptionValue>; withdrawn: unknown }[];
  }[];
}

interface Loaded {
  generations: { generation: number; role: string; requests: number; running: number; faults: number; last_fault: string | null }[];
}

const api = new Api("tokenrouter-admin-key");
/** The default as it was last seen: a change is refused if it is another one by then. */
let seen: Named | null = null;
let drawn = "";

export async function policies(): Promise<void> {
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    api.setKey(byId<HTMLInputElement>("key").value);
    void look();
  });
  byId("upload").addEventListener("submit", (event) => {
    event.preventDefault();
    void upload();
  });
  byId("file").addEventListener("change", () => {
    const name = byId<HTMLInputElement>("name");
    const file = byId<HTMLInputElement>("file").files?.[0];
    name.value ||= file?.name.replace(/\.wasm$/, "") ?? "";
  });
  await look();
  window.setInterval(() => void (document.hidden || look()), LOOK_MS);
}

async function look(): Promise<void> {
  try {
    const [overview, loaded] = await Promise.all([
      api.get<Overview>("/admin/policies"),
      api.get<Loaded>("/admin/generations"),
    ]);
    byId("state").textContent = "connected";
    byId("state").className = "state ready";
    byId("key-form").hidden = true;
    seen = overview.default;
    draw(overview, loaded);
  } catch (error) {
    const wantsKey = error instanceof HttpError && error.status === 401;
    byId("state").textContent = wantsKey ? "a key is needed" : "not reachable";
    byId("state").className = "state trouble";
    byId("key-form").hidden = !wantsKey;
    show(byId("error"), wantsKey && !api.hasKey() ? "" : explain(error));
  }
}

function draw(overview: Overview, loaded: Loaded): void {
  const named = (one: Named | null) => (one === null ? "none" : `${one.policy}, generation ${one.generation}`);
  const trial = (one: Trial | null) => (one === null ? "none" : `${named(one)}, share ${one.share}`);
  const entries: [string, string][] = [
    ["default", named(overview.default)],
    ["canary", trial(overview.canary)],
    ["shadow", trial(overview.shadow)],
    ["after a restart", overview.persists ? "the same" : "what the deployment file says"],
  ];
  const comparison = overview.shadow?.comparison;
  if (comparison !== undefined && comparison.steps > 0) {
    const rate = ((100 * comparison.disagreements) / comparison.steps).toFixed(1);
    entries.push(["the shadow would have gone elsewhere", `at ${comparison.disagreements} of ${comparison.steps} steps (${rate} %)`]);
  }
  const back = overview.former[0];
  const current = overview.default;
  const rollback = el("button", { type: "button" }, back === undefined ? "Nothing to roll back to" : `Roll back to ${named(back)}`);
  rollback.disabled = back === undefined || current === null;
  rollback.addEventListener("click", () => void change(current?.policy ?? "", "rollback", { expected: current?.generation }));
  const now = JSON.stringify([overview, loaded]);
  if (now === drawn) {
    // Buttons keep their focus while nothing changes.
    return;
  }
  drawn = now;
  byId("now").replaceChildren(facts(entries), el("div", { class: "row" }, rollback));
  byId("generations").replaceChildren(generations(overview, loaded));
}

function generations(overview: Overview, loaded: Loaded): HTMLElement {
  const live = new Map(loaded.generations.map((one) => [one.generation, one]));
  const rows = overview.policies.flatMap((policy) =>
    policy.generations.map((record) => {
      const stats = live.get(record.generation);
      const fault = stats?.last_fault ? el("span", { title: stats.last_fault }, ` (${stats.last_fault.slice(0, 60)})`) : "";
      return [
        el("strong", {}, policy.name),
        record.generation,
        el("span", { class: "badge" }, record.withdrawn ? "withdrawn" : (stats?.role ?? "not loaded")),
        stats?.requests ?? 0,
        stats?.running ?? 0,
        el("span", {}, String(stats?.faults ?? 0), fault),
        optionsText(record.options),
        el("code", {}, record.sha256.slice(0, 12)),
        actions(policy.name, record.generation),
      ];
    }),
  );
  const heads = ["policy", "generation", "role", "requests", "running", "faults", "options given", "sha256", "change"];
  return table("Policies and their generations", heads, rows);
}

function actions(name: string, generation: number): HTMLElement {
  const of = `${name}, generation ${generation}`;
  const share = el("input", { type: "number", min: "0", max: "1", step: "0.05", value: "0.1", "aria-label": `Share for ${of}` });
  const button = (text: string, action: string, body: () => Record<string, unknown>) => {
    const made = el("button", { type: "button", "aria-label": `${text}: ${of}` }, text);
    made.addEventListener("click", () => void change(name, action, { generation, expected: seen?.generation, ...body() }));
    return made;
  };
  const trial = () => ({ share: share.valueAsNumber });
  return el(
    "div",
    { class: "row" },
    button("Activate", "activate", () => ({})),
    share,
    button("Canary", "canary", trial),
    button("Shadow", "shadow", trial),
  );
}

async function change(name: string, action: string, body: Record<string, unknown>): Promise<void> {
  await report(() => api.post(`/admin/policies/${encodeURIComponent(name)}/${action}`, body), `${action} ${name}`);
}

async function upload(): Promise<void> {
  const text = (id: string) => byId<HTMLInputElement>(id).value.trim();
  const file = byId<HTMLInputElement>("file").files?.[0];
  if (file === undefined) {
    return;
  }
  const query = new URLSearchParams({ activate: String(byId<HTMLInputElement>("activate").checked) });
  if (text("options") !== "") {
    query.set("options", text("options"));
  }
  const path = `/admin/policies/${encodeURIComponent(text("name"))}?${query}`;
  await report(async () => (await api.send("PUT", path, file)).json(), `upload ${text("name")}`);
}

async function report(work: () => Promise<unknown>, what: string): Promise<void> {
  show(byId("error"), "");
  byId("done").textContent = `${what} …`;
  try {
    const done = (await work()) as Named & { default: Named | null };
    const serves = done.default === null ? "none" : `${done.default.policy}, generation ${done.default.generation}`;
    byId("done").textContent = `${what}: ${done.policy}, generation ${done.generation}. Default: ${serves}.`;
  } catch (error) {
    byId("done").textContent = "";
    show(byId("error"), `${what}: ${explain(error)}`);
  }
  await look();
}
