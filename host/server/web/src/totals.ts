// What an answer has cost so far: who wrote how much, handoffs, speed.

import { AheadCount } from "./ahead";
import type { Colours } from "./colours";
import { el, facts } from "./dom";
import type { Assumed, Token, Usage } from "./types";

export class Totals {
  readonly element = el("div", { class: "totals" });
  private readonly byModel = new Map<string, number>();
  private handoffs = 0;
  /** What is written ahead, by the index of the answer. */
  private readonly ahead: AheadCount[] = [];
  private readonly asked = performance.now();
  private first: number | undefined;
  private last = 0;

  constructor(
    private readonly models: string[],
    private readonly colours: Colours,
  ) {
    models.forEach((name) => this.byModel.set(name, 0));
  }

  /** More tokens of an answer, and all that is assumed behind them. */
  push(answer: number, tokens: Token[], assumed: Assumed[]): void {
    (this.ahead[answer] ??= new AheadCount()).push(tokens, assumed);
    if (tokens.length > 0) {
      this.last = performance.now();
      this.first ??= this.last;
    }
    for (const token of tokens) {
      this.byModel.set(token.model, (this.byModel.get(token.model) ?? 0) + 1);
      this.handoffs += token.after_handoff ? 1 : 0;
    }
    this.draw();
  }

  /** The server's own count, which also knows handoffs after the last token. */
  settle(usage: Usage): void {
    Object.entries(usage.tokenrouter.tokens_by_model).forEach(([name, tokens]) => this.byModel.set(name, tokens));
    this.handoffs = usage.tokenrouter.handoffs;
    this.draw();
  }

  /** One sentence for those who listen. */
  sentence(): string {
    const parts = this.models.map((name) => `${this.byModel.get(name) ?? 0} tokens by ${name}`);
    return `${parts.join(", ")}, ${this.handoffs} handoffs.`;
  }

  private draw(): void {
    const written = [...this.byModel.values()].reduce((sum, tokens) => sum + tokens, 0);
    const share = (tokens: number) => (written === 0 ? 0 : (100 * tokens) / written);
    const bar = el("div", { class: "share", "aria-hidden": "true" });
    const entries: [string, string][] = [];
    for (const name of this.models) {
      const tokens = this.byModel.get(name) ?? 0;
      const part = el("span", { class: this.colours.class(name) });
      part.style.flexGrow = String(tokens);
      bar.append(part);
      entries.push([name, `${tokens} (${share(tokens).toFixed(0)} %)`]);
    }
    const largest = this.models.at(-1);
    if (this.models.length > 1 && largest !== undefined) {
      const saved = written - (this.byModel.get(largest) ?? 0);
      entries.push([`spared ${largest}`, `${saved} of ${written}`]);
    }
    entries.push(["handoffs", String(this.handoffs)], ["tokens/s", this.speed(written)]);
    entries.push(["first token", this.first === undefined ? "…" : `${(this.first - this.asked).toFixed(0)} ms`]);
    const ahead = this.ahead.filter((count) => count?.seen);
    if (ahead.length > 0) {
      entries.push(["assumed and dropped", String(ahead.reduce((sum, count) => sum + count.dropped, 0))]);
    }
    const list = facts(entries);
    this.models.forEach((name, index) => {
      list.children[index]?.firstElementChild?.prepend(el("span", { class: `swatch ${this.colours.class(name)}` }));
    });
    this.element.replaceChildren(bar, list);
  }

  /** As this page sees it, from the first token on. */
  private speed(written: number): string {
    const spent = this.first === undefined ? 0 : this.last - this.first;
    return spent < 1 || written < 2 ? "…" : ((1000 * (written - 1)) / spent).toFixed(0);
  }
}
