// One side: whom to ask, with which options, and what came of it.

import { type Api, explain } from "./api";
import type { Colours } from "./colours";
import { el, show } from "./dom";
import { Options } from "./options";
import { type Asked, type Message, toRequest } from "./request";
import { events } from "./sse";
import { Tokens } from "./tokens";
import { Totals } from "./totals";
import type { Chunk, Info, Policy } from "./types";

export class Panel {
  readonly element: HTMLElement;
  private readonly select: HTMLSelectElement;
  private readonly options: Options;
  private readonly error = el("p", { class: "error", role: "alert", hidden: "" });
  private readonly turns = el("div", { class: "turns" });
  private readonly badge = el("span", { class: "badge" });
  private conversation: Message[] = [];
  private abort: AbortController | undefined;

  constructor(
    side: string,
    private readonly api: Api,
    private info: Info,
    private readonly colours: Colours,
    models: string[],
    chosen: string,
  ) {
    this.select = el("select", { id: `${side}-model` });
    this.fill(models, chosen);
    this.select.addEventListener("change", () => this.choose());
    this.options = new Options(side, info);
    const label = el("label", { for: `${side}-model` }, "Answered by");
    const head = el("div", { class: "row" }, label, this.select, this.badge);
    this.element = el("section", { class: "panel", "aria-label": `Answer ${side}` }, head, this.options.element, this.error, this.turns);
    this.choose();
    this.clear();
  }

  /** The name that the request's `model` has. */
  get model(): string {
    return this.select.value;
  }

  /** What is served has changed. What was chosen stays so, if it is still there. */
  update(info: Info, models: string[]): void {
    const before = this.policy(this.model)?.generation;
    const chosen = this.model;
    this.info = info;
    this.fill(models, models.includes(chosen) ? chosen : info.deployment);
    if (this.model !== chosen || this.policy(this.model)?.generation !== before) {
      this.choose();
    }
  }

  clear(): void {
    this.conversation = [];
    show(this.error, "");
    this.turns.replaceChildren(new Tokens(this.colours, this.model).element);
  }

  stop(): void {
    this.abort?.abort();
  }

  /** Asks and shows the answer to its end. Returns what to say of it. */
  async ask(asked: Asked): Promise<string> {
    const { path, body } = toRequest(asked, this.model, this.options.values(), this.conversation);
    const tokens = new Tokens(this.colours, this.model);
    const totals = new Totals(
      this.info.models.map((model) => model.name),
      this.colours,
    );
    const turn = el("div", { class: "turn" }, el("p", { class: "question" }, asked.prompt), tokens.element, totals.element, tokens.detail);
    show(this.error, "");
    if (asked.mode === "chat" && this.conversation.length > 0) {
      this.turns.append(turn);
    } else {
      this.turns.replaceChildren(turn);
    }
    this.abort = new AbortController();
    try {
      const response = await this.api.send("POST", path, JSON.stringify(body), this.abort.signal);
      const generation = response.headers.get("tokenrouter-generation");
      this.badge.textContent = generation === null ? "not routed" : `generation ${generation}`;
      for await (const data of events(response)) {
        this.take(JSON.parse(data) as Chunk, tokens, totals);
      }
      this.conversation.push({ role: "user", content: asked.prompt }, { role: "assistant", content: tokens.text() });
      return `${this.model} has answered: ${totals.sentence()}`;
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") {
        return `${this.model} was stopped: ${totals.sentence()}`;
      }
      show(this.error, explain(error));
      if (tokens.count === 0) {
        turn.replaceWith(new Tokens(this.colours, this.model).element);
      }
      throw error;
    }
  }

  private take(chunk: Chunk, tokens: Tokens, totals: Totals): void {
    if (chunk.error !== undefined) {
      throw new Error(chunk.error.message);
    }
    for (const choice of chunk.choices) {
      const written = choice.attribution ?? [];
      const assumed = choice.assumed?.tokens ?? [];
      totals.push(choice.index, written, assumed);
      if (choice.index === 0) {
        tokens.push(written, assumed);
        if (choice.finish_reason === "stop" || choice.finish_reason === "tool_calls") {
          tokens.markEnd();
        }
      }
    }
    if (chunk.usage) {
      totals.settle(chunk.usage);
    }
  }

  private fill(models: string[], chosen: string): void {
    const options = models.map((id) => el("option", { value: id }, this.title(id)));
    const same = options.every((option, index) => this.select.options[index]?.isEqualNode(option));
    if (!same || options.length !== this.select.options.length) {
      // Otherwise a list that is open would close.
      this.select.replaceChildren(...options);
    }
    this.select.value = chosen;
  }

  private choose(): void {
    const policy = this.policy(this.model);
    this.options.show(policy);
    this.badge.textContent = policy === undefined ? "not routed" : `generation ${policy.generation}`;
  }

  private policy(model: string): Policy | undefined {
    const name = model.split("@")[1];
    if (name !== undefined) {
      return this.info.policies.find((policy) => policy.name === name);
    }
    return model.includes("/") ? undefined : this.info.policies[0];
  }

  private title(id: string): string {
    const policy = this.policy(id);
    return id === this.info.deployment && policy !== undefined ? `${id} (default: ${policy.name})` : id;
  }
}
