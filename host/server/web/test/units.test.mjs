// The parts of the page that need no browser: the reader of server-sent events, bounds of sliders, windows of the timeline, what is
// written ahead.
import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";

async function load(name) {
  const entry = new URL(`../src/${name}`, import.meta.url).pathname;
  const built = await build({ entryPoints: [entry], bundle: true, write: false, format: "esm" });
  return import(`data:text/javascript;base64,${Buffer.from(built.outputFiles[0].contents).toString("base64")}`);
}

const stream = 'data: {"a":1}\n\n:\n\ndata: {"b":"é\\n"}\n\ndata: [DONE]\n\n';
const expected = ['{"a":1}', '{"b":"é\\n"}', "[DONE]"];

test("events are the same wherever the stream is cut", async () => {
  const { EventReader } = await load("sse.ts");
  for (let first = 0; first <= stream.length; first += 1) {
    for (let second = first; second <= stream.length; second += 1) {
      const reader = new EventReader();
      const pieces = [stream.slice(0, first), stream.slice(first, second), stream.slice(second)];
      assert.deepEqual(pieces.flatMap((piece) => reader.push(piece)), expected, `cut at ${first} and ${second}`);
    }
  }
});

test("bytes of one character in two pieces become one character, and an early end is an error", async () => {
  const { events } = await load("sse.ts");
  const bytes = new TextEncoder().encode(stream);
  const cut = bytes.indexOf(0xc3) + 1;
  const read = async (pieces) => {
    const found = [];
    const body = new ReadableStream({
      start(controller) {
        pieces.forEach((piece) => controller.enqueue(piece));
        controller.close();
      },
    });
    for await (const data of events(new Response(body))) {
      found.push(data);
    }
    return found;
  };
  assert.deepEqual(await read([bytes.slice(0, cut), bytes.slice(cut)]), expected.slice(0, 2));
  await assert.rejects(read([bytes.slice(0, cut)]), /ended before the answer did/);
});

test("a slider stays within the operator's bounds", async () => {
  const { bounds } = await load("options.ts");
  assert.deepEqual(bounds(0.2, { min: 0.1, max: 0.5 }), { min: 0.1, max: 0.5 });
  assert.deepEqual(bounds(0.2, { min: null, max: 0.5 }), { min: 0, max: 0.5 });
  assert.deepEqual(bounds(0.2, undefined), { min: 0, max: 1 });
  assert.deepEqual(bounds(3, true), { min: 0, max: 12 });
});

test("a window has the steps that show in it, those that only waited in it too", async () => {
  const { StepStore, summary } = await load("steps_store.ts");
  const store = new StepStore();
  const zeros = [0, 0, 0, 0];
  store.push({
    number: [1, 2, 3, 4],
    started_us: [0, 100, 200, 400],
    took_us: [50, 50, 100, 50],
    rows: [1, 2, 3, 4],
    tokens: zeros,
    wait_us_max: [0, 0, 0, 90],
    left_waiting: zeros,
  });
  const numbers = (from, to) => store.within(from, to).map((step) => step.number);
  assert.deepEqual(numbers(120, 220), [2, 3], "one that ends in it, one that begins in it");
  assert.deepEqual(numbers(320, 330), [4], "one that waits in it");
  assert.deepEqual(numbers(500, 600), []);
  assert.equal(store.last, 4);
  assert.deepEqual(summary(store.within(0, 500)), { steps: 4, batch: 2.5, wait_ms: 0.0225, step_ms: 0.0625 });
  assert.equal(summary([]).batch, 0);
});

test("what was assumed and did not come true is counted, with all that stood behind it", async () => {
  const { AheadCount } = await load("ahead.ts");
  const tokens = (...ids) => ids.map((id) => ({ id, bytes: [], model: "small", asked: null }));
  const count = new AheadCount();
  count.push(tokens(1), []);
  assert.equal(count.seen, false);
  count.push([], tokens(2, 3));
  count.push([], tokens(2, 3, 4));
  count.push(tokens(2, 3), tokens(4, 5, 6));
  assert.deepEqual([count.seen, count.dropped], [true, 0], "all came true or may yet");
  count.push(tokens(4, 9), tokens(6));
  assert.equal(count.dropped, 2, "the fifth was another, and the sixth was assumed behind it");
  count.push([], tokens(7, 8));
  assert.equal(count.dropped, 3, "another draft");
  count.push([], []);
  assert.equal(count.dropped, 5);
});

test("a character that an answer has begun is completed by what is assumed", async () => {
  const { openBytes } = await load("ahead.ts");
  const encoder = new TextEncoder();
  for (const text of ["a", "é", "€", "\u{1f600}"]) {
    const bytes = [...encoder.encode(`x${text}`)];
    for (let cut = 1; cut <= bytes.length; cut += 1) {
      const open = cut === bytes.length ? [] : bytes.slice(1, cut);
      assert.deepEqual(openBytes(bytes.slice(0, cut)), open, `${cut} bytes of x${text}`);
    }
  }
  assert.deepEqual(openBytes([]), []);
  assert.deepEqual(openBytes([0x80, 0x80, 0x80, 0x80]), [], "no beginning of a character");
});
