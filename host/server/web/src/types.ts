// What the server sends, as /openapi.json describes it; only what the page reads.

export interface Step {
  model: string;
  id: number;
  token: string;
  signals: Record<string, number | number[] | null>;
  to: string;
  committed: boolean;
}

export interface Token {
  id: number;
  token: string;
  bytes: number[];
  model: string;
  after_handoff: boolean;
  steps?: Step[];
}

/** A token that is written ahead; `asked` is who is asked about it. */
export interface Assumed {
  id: number;
  bytes: number[];
  model: string;
  asked: string | null;
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  tokenrouter: { tokens_by_model: Record<string, number>; handoffs: number };
}

export interface Chunk {
  choices: {
    index: number;
    text?: string;
    delta?: { content?: string | null };
    finish_reason: string | null;
    seed: number;
    attribution?: Token[];
    assumed?: { text: string; tokens: Assumed[] };
    handoffs?: { position: number; from: string; to: string }[];
  }[];
  usage?: Usage | null;
  error?: { message: string };
}

export type OptionValue = boolean | number | string | number[] | string[];

export interface Policy {
  name: string;
  generation: number;
  version: string;
  summary: string;
  options: Record<string, OptionValue>;
  options_per_request: string[];
}

export interface Info {
  version: string;
  deployment: string;
  ready: boolean;
  models: { name: string; source: string; parameters: number }[];
  policies: Policy[];
  request_options: Record<string, boolean | { min: number | null; max: number | null }>;
  launch: string;
  limits: { context_max: number; prompts_max: number };
}

/** Steps in columns, oldest first. */
export interface Steps {
  number: number[];
  started_us: number[];
  took_us: number[];
  rows: number[];
  tokens: number[];
  wait_us_max: number[];
  left_waiting: number[];
}

export interface TimelineReply {
  now_us: number;
  launch: string;
  models: { name: string; waiting: number; running: number; pending: number; steps: Steps }[];
}
