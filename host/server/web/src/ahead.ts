// What is written ahead of an answer and not settled: shown behind its tokens, and counted where it did not come true.

import type { Colours } from "./colours";
import { el } from "./dom";
import type { Assumed } from "./types";

/** Tokens of one answer that were shown before they were settled. */
export class AheadCount {
  private now: Assumed[] = [];
  /** Whether any was ever shown. */
  seen = false;
  /** Those that were replaced, or stood behind one that was. */
  dropped = 0;

  /** These ids were written since the last time, and this is assumed now. */
  push(written: { id: number }[], assumed: Assumed[]): void {
    const then = [...written, ...assumed];
    const wrong = this.now.findIndex((token, index) => then[index]?.id !== token.id);
    this.dropped += wrong < 0 ? 0 : this.now.length - wrong;
    this.now = assumed;
    this.seen ||= assumed.length > 0;
  }
}

/** The bytes at the end that begin a character and do not complete it. */
export function openBytes(bytes: number[]): number[] {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (byte >= 0xc0) {
      const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
      return length > back ? bytes.slice(-back) : [];
    }
    if (byte < 0x80) {
      return [];
    }
  }
  return [];
}

/**
 * The end of an answer as it may become. What is read aloud must not vanish, so this is for eyes only; each token has the colour
 * of the model whose it will be. `before` are the last bytes of the answer.
 */
export function tail(assumed: Assumed[], before: number[], colours: Colours): HTMLElement {
  const decoder = new TextDecoder();
  decoder.decode(new Uint8Array(openBytes(before)), { stream: true });
  const spans = assumed.map((token) => {
    const by = token.asked ?? token.model;
    const why = token.asked === null ? "" : `, ${token.asked} is asked`;
    return el(
      "span",
      { class: `token assumed ${colours.class(by)}`, title: `not settled yet: written ahead by ${token.model}${why}` },
      decoder.decode(new Uint8Array(token.bytes), { stream: true }),
    );
  });
  return el("span", { class: "ahead", "aria-hidden": "true" }, ...spans);
}
