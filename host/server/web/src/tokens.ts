// An answer as it is written: every token coloured by its model, one of them current, with its steps shown below.

import { tail } from "./ahead";
import type { Colours } from "./colours";
import { el } from "./dom";
import { stepTable } from "./steps";
import type { Assumed, Token } from "./types";

export class Tokens {
  readonly element: HTMLElement;
  readonly detail: HTMLElement;
  private readonly tokens: Token[] = [];
  private readonly spans: HTMLElement[] = [];
  private decoder = new TextDecoder();
  private current = -1;
  private ahead: HTMLElement | undefined;

  constructor(
    private readonly colours: Colours,
    name: string,
  ) {
    this.element = el("div", {
      class: "tokens",
      role: "group",
      tabindex: "0",
      "aria-label": `Tokens of the answer by ${name}. Arrow keys go from one to the next.`,
      "data-empty": "The answer appears here, every token in the colour of the model that wrote it.",
    });
    this.detail = el("div", { class: "detail" });
    this.element.addEventListener("pointerover", (event) => this.choose(this.indexOf(event.target)));
    this.element.addEventListener("click", (event) => this.choose(this.indexOf(event.target)));
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.explain();
  }

  get count(): number {
    return this.tokens.length;
  }

  /** More tokens, and all that is assumed behind them. */
  push(tokens: Token[], assumed: Assumed[] = []): void {
    const atEnd = this.element.scrollTop + this.element.clientHeight >= this.element.scrollHeight - 4;
    this.ahead?.remove();
    for (const token of tokens) {
      this.append(token);
    }
    this.ahead = assumed.length > 0 ? tail(assumed, this.lastBytes(), this.colours) : undefined;
    if (this.ahead !== undefined) {
      this.element.append(this.ahead);
    }
    if (atEnd) {
      this.element.scrollTop = this.element.scrollHeight;
    }
  }

  /** The last token ended the answer and is no part of its text. */
  markEnd(): void {
    const last = this.spans.at(-1);
    if (last !== undefined) {
      last.textContent = "end";
      last.setAttribute("aria-label", `end of the answer, by ${this.tokens.at(-1)?.model}`);
      last.classList.add("end");
    }
  }

  /** The answer's text, without the token that ended it. */
  text(): string {
    const shown = this.spans.filter((span) => !span.classList.contains("end"));
    return shown.map((span) => span.textContent).join("");
  }

  private append(token: Token): void {
    // A character may be of several tokens: it is shown with the one that completes it.
    const text = this.decoder.decode(new Uint8Array(token.bytes), { stream: true });
    const index = this.tokens.length;
    const span = el(
      "span",
      {
        class: `token ${this.colours.class(token.model)}`,
        role: "option",
        "aria-selected": "false",
        id: `${this.detailId()}-${index}`,
        "aria-label": `${JSON.stringify(text)} by ${token.model}`,
        "data-index": String(index),
      },
      text,
    );
    span.classList.toggle("other", this.colours.place(token.model) > 0);
    span.classList.toggle("discarded", (token.steps?.length ?? 0) > 1);
    this.tokens.push(token);
    this.spans.push(span);
    this.element.append(span);
    if (index === 0) {
      // A list box without options is none.
      this.element.setAttribute("role", "listbox");
      this.explain();
    }
  }

  /** Enough of the answer's bytes to hold a character that is not complete. */
  private lastBytes(): number[] {
    return this.tokens.slice(-4).flatMap((token) => token.bytes);
  }

  private detailId(): string {
    this.detail.id ||= `tokens-${Math.random().toString(36).slice(2)}`;
    return this.detail.id;
  }

  private indexOf(target: EventTarget | null): number {
    return target instanceof HTMLElement && target.dataset["index"] !== undefined ? Number(target.dataset["index"]) : -1;
  }

  private key(event: KeyboardEvent): void {
    const last = this.tokens.length - 1;
    const to: Record<string, number> = {
      ArrowRight: Math.min(this.current + 1, last),
      ArrowDown: this.nextHandoff(1),
      ArrowLeft: Math.max(this.current - 1, 0),
      ArrowUp: this.nextHandoff(-1),
      Home: 0,
      End: last,
    };
    const index = to[event.key];
    if (index !== undefined && last >= 0) {
      event.preventDefault();
      this.choose(index);
      this.spans[index]?.scrollIntoView({ block: "nearest" });
    }
  }

  /** The next token after a handoff in this direction, or the one at hand. */
  private nextHandoff(direction: number): number {
    for (let index = this.current + direction; index >= 0 && index < this.tokens.length; index += direction) {
      if (this.tokens[index]?.after_handoff) {
        return index;
      }
    }
    return Math.max(this.current, 0);
  }

  private choose(index: number): void {
    if (index < 0 || index === this.current) {
      return;
    }
    const former = this.spans[this.current];
    former?.classList.remove("current");
    former?.setAttribute("aria-selected", "false");
    this.current = index;
    const span = this.spans[index];
    span?.classList.add("current");
    span?.setAttribute("aria-selected", "true");
    this.element.setAttribute("aria-activedescendant", span?.id ?? "");
    this.explain();
  }

  private explain(): void {
    const token = this.tokens[this.current];
    if (token === undefined) {
      const hint = "Point at a token, or go to it with the arrow keys, to see what the policy saw and decided. Up and down go from handoff to handoff.";
      this.detail.replaceChildren(el("p", { class: "hint" }, this.tokens.length > 0 ? hint : ""));
      return;
    }
    const swatch = el("span", { class: `swatch ${this.colours.class(token.model)}` });
    const title = el("p", {}, swatch, `Token ${this.current + 1} `, el("code", {}, JSON.stringify(token.token)), ` written by ${token.model}`);
    title.append(token.after_handoff ? ", after a handoff" : "");
    this.detail.replaceChildren(title, stepTable(token.steps ?? [], this.colours));
  }
}
