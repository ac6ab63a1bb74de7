// Follows /timeline while somebody watches, and draws it.

import { type Api, HttpError } from "./api";
import type { Colours } from "./colours";
import { byId, el, table } from "./dom";
import { draw, type Lane } from "./lanes";
import { StepStore, summary } from "./steps_store";
import type { Info, TimelineReply } from "./types";

const PERIOD_MS = 250;
/** Steps of each model in one reply: as many as the server keeps. */
const STEPS = 2048;

export class Timeline {
  private readonly canvas: HTMLCanvasElement;
  private readonly readout = el("p", { class: "readout", role: "status" });
  private readonly table = el("div", { class: "scroll" });
  private stores: StepStore[];
  private readonly names: string[];
  /** Answers that run. */
  private running = 0;
  private timer: number | undefined;
  /** The host's clock at the last look. */
  private now = 0;
  private picked: { lane: number; number: number } | undefined;

  constructor(
    private readonly api: Api,
    info: Info,
    private readonly colours: Colours,
  ) {
    this.names = info.models.map((model) => model.name);
    this.stores = this.names.map(() => new StepStore());
    const label = "Steps of each model over time. Left and right go from step to step, up and down from model to model.";
    this.canvas = el("canvas", { role: "img", tabindex: "0", "aria-label": label });
    byId("timeline").replaceChildren(this.canvas, this.readout, this.table);
    byId("window").addEventListener("change", () => this.draw());
    byId("watch").addEventListener("change", () => this.follow());
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("visibilitychange", () => this.follow());
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    void this.poll();
  }

  /** Watches while an answer is written. */
  begin(): void {
    this.running += 1;
    this.follow();
  }

  /** The answer has ended; a last look shows its last steps. */
  end(): void {
    this.running -= 1;
    void this.poll();
  }

  private follow(): void {
    const wanted = !document.hidden && (this.running > 0 || byId<HTMLInputElement>("watch").checked);
    if (wanted && this.timer === undefined) {
      this.timer = window.setInterval(() => void this.poll(), PERIOD_MS);
    } else if (!wanted) {
      window.clearInterval(this.timer);
      this.timer = undefined;
    }
  }

  private async poll(): Promise<void> {
    const after = this.stores.map((store) => store.last).join(",");
    try {
      const reply = await this.api.get<TimelineReply>(`/timeline?after=${after}&steps=${STEPS}`);
      byId("rule").textContent = reply.launch;
      if (reply.now_us < this.now) {
        // The host was started anew and counts from the beginning.
        this.stores = this.names.map(() => new StepStore());
      }
      this.now = reply.now_us;
      reply.models.forEach((model, index) => this.stores[index]?.push(model.steps));
      this.draw();
    } catch (error) {
      // Whoever asks for answers tells what is wrong.
      if (!(error instanceof HttpError)) {
        throw error;
      }
    }
    this.follow();
  }

  /** The window ends with the newest step, so that what was last done stays in sight. */
  private window(): { from: number; to: number } {
    const to = Math.max(0, ...this.stores.map((store) => store.steps.at(-1)?.end ?? 0));
    return { from: to - Number(byId<HTMLSelectElement>("window").value), to };
  }

  private lanes(): Lane[] {
    const { from, to } = this.window();
    return this.names.map((name, index) => ({
      name,
      place: this.colours.place(name),
      steps: this.stores[index]?.within(from, to) ?? [],
    }));
  }

  private draw(): void {
    const lanes = this.lanes();
    draw(this.canvas, lanes, this.window(), this.picked);
    const rows = lanes.map((lane) => {
      const { steps, batch, wait_ms, step_ms } = summary(lane.steps);
      return [
        el("span", {}, el("span", { class: `swatch ${this.colours.class(lane.name)}` }), lane.name),
        steps,
        Number(batch.toFixed(2)),
        Number(step_ms.toFixed(2)),
        Number(wait_ms.toFixed(2)),
      ];
    });
    const heads = ["model", "steps in the window", "mean batch", "mean step, ms", "mean wait, ms"];
    this.table.replaceChildren(table("The window in numbers", heads, rows));
  }

  private point(event: PointerEvent): void {
    const lanes = this.lanes();
    const box = this.canvas.getBoundingClientRect();
    const { from, to } = this.window();
    const time = from + ((event.clientX - box.left) / box.width) * (to - from);
    const lane = Math.floor(((event.clientY - box.top) / box.height) * lanes.length);
    const distance = (step: { start: number; end: number }) => Math.max(step.start - time, time - step.end, 0);
    const steps = lanes[lane]?.steps ?? [];
    const nearest = steps.reduce<(typeof steps)[number] | undefined>(
      (best, step) => (best === undefined || distance(step) < distance(best) ? step : best),
      undefined,
    );
    if (nearest !== undefined) {
      this.pick(lane, nearest.number);
    }
  }

  private key(event: KeyboardEvent): void {
    const moves: Record<string, [number, number]> = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const move = moves[event.key];
    if (move === undefined) {
      return;
    }
    event.preventDefault();
    const lane = Math.min(Math.max((this.picked?.lane ?? 0) + move[0], 0), this.names.length - 1);
    const steps = this.lanes()[lane]?.steps ?? [];
    const at = move[0] === 0 && this.picked !== undefined ? steps.findIndex((step) => step.number === this.picked?.number) : -1;
    const step = at < 0 ? steps.at(-1) : steps[Math.min(Math.max(at + move[1], 0), steps.length - 1)];
    if (step !== undefined) {
      this.pick(lane, step.number);
    }
  }

  private pick(lane: number, number: number): void {
    this.picked = { lane, number };
    const step = this.stores[lane]?.steps.find((step) => step.number === number);
    if (step !== undefined) {
      const ms = (us: number) => `${(us / 1000).toFixed(2)} ms`;
      const left = step.left > 0 ? `, ${step.left} left waiting` : "";
      this.readout.textContent =
        `${this.names[lane]}, step ${step.number}: ${step.rows} ${step.rows === 1 ? "request" : "requests"}, ` +
        `${step.tokens} tokens fed, took ${ms(step.end - step.start)}, the first had waited ${ms(step.wait)}${left}`;
    }
    this.draw();
  }
}
