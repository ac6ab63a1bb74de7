// The page of answers: what is filled in, one or two panels, and what is seen of the server.

import { Api, explain, HttpError } from "./api";
import { Colours } from "./colours";
import { byId, show } from "./dom";
import { Panel } from "./panel";
import { policiesTable } from "./policies";
import { readForm } from "./request";
import { Timeline } from "./timeline";
import type { Info } from "./types";

/** How often a server that is not there yet is asked again. */
const RETRY_MS = 1000;
/** How often the state and the policies are asked for. */
const LOOK_MS = 5000;

const api = new Api("tokenrouter-key");

export async function answers(): Promise<void> {
  byId("key").addEventListener("change", () => api.setKey(byId<HTMLInputElement>("key").value));
  const [info, models] = await connect();
  byId("deployment").textContent = info.deployment;
  const colours = new Colours(info.models.map((model) => model.name));
  const panel = (side: string, chosen: string) => new Panel(side, api, info, colours, models, chosen);
  const first = panel("A", info.deployment);
  // Beside the default: another policy, and where there is none, the first model alone.
  const other = models.find((id) => id.includes("@") && !id.endsWith(`@${info.policies[0]?.name}`));
  const second = panel("B", other ?? models.find((id) => id.includes("/")) ?? info.deployment);
  const timeline = new Timeline(api, info, colours);
  byId("policies").replaceChildren(policiesTable(info));
  byId<HTMLInputElement>("answers").max = String(info.limits.prompts_max);
  if (info.models.some((model) => model.source.startsWith("embedded:tiny"))) {
    // What those models were trained for.
    byId<HTMLTextAreaElement>("prompt").value = "23*03-98-37*05=";
  }
  const shown = () => (byId<HTMLInputElement>("compare").checked ? [first, second] : [first]);
  const layOut = () => {
    byId("panels").replaceChildren(...shown().map((panel) => panel.element));
    byId("panels").classList.toggle("two", shown().length > 1);
  };
  layOut();
  byId("compare").addEventListener("change", layOut);
  byId("clear").addEventListener("click", () => [first, second].forEach((panel) => panel.clear()));
  document.querySelectorAll('input[name="mode"]').forEach((radio) => {
    radio.addEventListener("change", () => [first, second].forEach((panel) => panel.clear()));
  });
  bindAsking(shown, timeline);
  window.setInterval(() => void look([first, second]), LOOK_MS);
}

/** What is served, and the names that `model` may have. */
async function served(): Promise<[Info, string[]]> {
  const [info, models] = await Promise.all([
    api.get<Info>("/info"),
    api.get<{ data: { id: string }[] }>("/v1/models"),
  ]);
  return [info, models.data.map((model) => model.id)];
}

/** Waits for the server, and for a key if it wants one. */
async function connect(): Promise<[Info, string[]]> {
  for (;;) {
    try {
      const found = await served();
      show(byId("error"), "");
      state(found[0].ready);
      return found;
    } catch (error) {
      await troubleWith(error);
    }
  }
}

async function troubleWith(error: unknown): Promise<void> {
  const status = error instanceof HttpError ? error.status : -1;
  if (status === 401) {
    byId("key-row").hidden = false;
    state(false, "a key is needed");
    show(byId("error"), api.hasKey() ? explain(error) : "");
    await new Promise((resolve) => byId("key").addEventListener("change", resolve, { once: true }));
    return;
  }
  state(false, status === 503 ? "loading the models" : "not reachable");
  show(byId("error"), status === 503 ? "" : explain(error));
  await new Promise((resolve) => window.setTimeout(resolve, RETRY_MS));
}

async function look(panels: Panel[]): Promise<void> {
  if (document.hidden) {
    return;
  }
  try {
    const [info, models] = await served();
    state(info.ready);
    byId("policies").replaceChildren(policiesTable(info));
    panels.forEach((panel) => panel.update(info, models));
  } catch (error) {
    state(false, error instanceof HttpError && error.status > 0 ? explain(error) : "not reachable");
  }
}

function state(ready: boolean, why = "not ready"): void {
  byId("state").textContent = ready ? "ready" : why;
  byId("state").className = `state ${ready ? "ready" : "trouble"}`;
}

function bindAsking(shown: () => Panel[], timeline: Timeline): void {
  const send = byId<HTMLButtonElement>("send");
  const stop = byId<HTMLButtonElement>("stop");
  const ask = async () => {
    if (send.disabled) {
      return;
    }
    send.disabled = true;
    stop.disabled = false;
    timeline.begin();
    const asked = readForm();
    const said = await Promise.allSettled(shown().map((panel) => panel.ask(asked)));
    timeline.end();
    send.disabled = false;
    stop.disabled = true;
    // Errors stand in their panels, which say them themselves.
    byId("announcer").textContent = said.flatMap((one) => (one.status === "fulfilled" ? [one.value] : [])).join(" ");
  };
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    void ask();
  });
  stop.addEventListener("click", () => shown().forEach((panel) => panel.stop()));
  byId("ask").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      byId<HTMLFormElement>("ask").requestSubmit();
    } else if (event.key === "Escape") {
      shown().forEach((panel) => panel.stop());
    }
  });
}
