// From what is filled in to the body of a request.

import { byId } from "./dom";

export type Mode = "raw" | "chat";

export interface Message {
  role: "user" | "assistant";
  content: string;
}

/** What all panels ask alike. */
export interface Asked {
  mode: Mode;
  prompt: string;
  maxTokens: number;
  temperature: number;
  seed: number | undefined;
  answers: number;
}

export function readForm(): Asked {
  const number = (id: string) => byId<HTMLInputElement>(id).valueAsNumber;
  const mode = document.querySelector<HTMLInputElement>('input[name="mode"]:checked')?.value;
  const seed = number("seed");
  return {
    mode: mode === "chat" ? "chat" : "raw",
    prompt: byId<HTMLTextAreaElement>("prompt").value,
    maxTokens: number("max-tokens"),
    temperature: number("temperature"),
    seed: Number.isNaN(seed) ? undefined : seed,
    answers: number("answers") || 1,
  };
}

/** Path and body. `former` are the turns of a conversation before this one. */
export function toRequest(
  asked: Asked,
  model: string,
  options: Record<string, number>,
  former: Message[],
): { path: string; body: Record<string, unknown> } {
  const chat = asked.mode === "chat";
  const turn: Message = { role: "user", content: asked.prompt };
  return {
    path: chat ? "/v1/chat/completions" : "/v1/completions",
    body: {
      model,
      ...(chat ? { messages: [...former, turn] } : { prompt: asked.prompt }),
      max_tokens: asked.maxTokens,
      temperature: asked.temperature,
      ...(asked.seed === undefined ? {} : { seed: asked.seed }),
      n: asked.answers,
      stream: true,
      stream_options: { include_usage: true },
      tokenrouter: { steps: true, assumed: true, ...(Object.keys(options).length > 0 ? { options } : {}) },
    },
  };
}
