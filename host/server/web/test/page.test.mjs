// The pages end to end: the real server, the real browser, and what a person sees and does.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { ADMIN_KEY, ask, holdStreams, inRoot, openPage, startBrowser, startServer } from "./harness.mjs";

const axeSource = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const API_KEY = "sk-of-the-page-0123456789";
let browser;
let server;

before(async () => {
  [browser, server] = await Promise.all([startBrowser(), startServer()]);
});

after(async () => {
  await browser?.close();
  server?.stop();
});

/** Serious and critical findings of axe, as text. */
async function findings(page) {
  // As a program that inspects the page, not as one of its scripts: the page's policy lets none in.
  const session = await page.context().newCDPSession(page);
  await session.send("Runtime.evaluate", { expression: axeSource });
  const { result } = await session.send("Runtime.evaluate", {
    expression: `axe.run().then((found) => JSON.stringify(found.violations.map((one) =>
      [one.impact, one.id, one.nodes.map((node) => node.html + " " + node.failureSummary).join("; ")])))`,
    awaitPromise: true,
  });
  await session.detach();
  return JSON.parse(result.value).filter(([impact]) => impact === "serious" || impact === "critical");
}

test("an answer shows who wrote each token, and every token its steps", async () => {
  const { page, errors, close } = await openPage(browser, server.url);
  await ask(page);
  const tokens = page.locator('[role="option"]');
  const text = (await tokens.allTextContents()).join("");
  // The server's own account of the same request.
  const body = { model: "tiny", prompt: "23*03-98-37*05=", max_tokens: 128, temperature: 0, tokenrouter: { steps: true } };
  const reply = await (await fetch(`${server.url}/v1/completions`, { method: "POST", body: JSON.stringify(body) })).json();
  const written = reply.choices[0].attribution;
  assert.equal(text, `${reply.choices[0].text}end`);
  const classes = await tokens.evaluateAll((all) => all.map((one) => (one.classList.contains("m1") ? "large" : "small")));
  assert.deepEqual(classes, written.map((token) => token.model));
  assert.ok(classes.includes("large"), "the policy asked the large model");
  const { tokens_by_model: by, handoffs } = reply.usage.tokenrouter;
  const facts = await page.locator(".totals dl").innerText();
  const flat = facts.replaceAll(/\s+/g, " ");
  for (const part of [`small ${by.small} `, `large ${by.large} `, `spared large ${by.small} of ${by.small + by.large}`, `handoffs ${handoffs}`]) {
    assert.ok(flat.includes(part), `${part} is not in ${flat}`);
  }
  // Pointing at a token that another model proposed and the large one wrote tells both steps.
  const index = written.findIndex((token) => token.steps.length > 1);
  assert.ok(index >= 0, "some candidate was discarded");
  await tokens.nth(index).hover();
  const detail = await page.locator(".detail").innerText();
  const [proposed] = written[index].steps;
  assert.match(detail, /discarded, handed to large/);
  assert.ok(Object.keys(proposed.signals).every((name) => detail.includes(name)), detail);
  // The keyboard alone gets there too, and what is read out says the same.
  await page.locator('[role="listbox"]').focus();
  await page.keyboard.press("Home");
  for (let step = 0; step < index; step += 1) {
    await page.keyboard.press("ArrowRight");
  }
  assert.equal(await page.locator('[aria-selected="true"]').getAttribute("data-index"), String(index));
  const said = await page.locator("#announcer").textContent();
  assert.match(said, new RegExp(`${by.small} tokens by small, ${by.large} tokens by large, ${handoffs} handoffs`));
  assert.deepEqual(errors, []);
  await close();
});

test("what is written ahead is shown paler until it is settled, and is not read aloud", async () => {
  const ahead = await startServer(["--optimistic", "window:4"]);
  const held = await holdStreams(ahead);
  try {
    const { page, errors, close } = await openPage(browser, held.url);
    await page.waitForSelector("#A-model");
    await page.click("#send");
    const assumed = page.locator('.tokens > .ahead[aria-hidden="true"] .token.assumed');
    await assumed.nth(1).waitFor();
    assert.equal(await assumed.first().getAttribute("title"), "not settled yet: written ahead by small, large is asked");
    assert.ok(await assumed.first().evaluate((one) => one.classList.contains("m1")), "it will be the large model's");
    assert.equal(await page.locator('[role="option"].assumed').count(), 0, "what may vanish is not among the options");
    assert.deepEqual(await findings(page), []);
    held.release();
    await page.waitForSelector("#send:not([disabled])");
    assert.equal(await page.locator(".assumed").count(), 0, "all is settled");
    // The same tokens, with the same steps behind them, as where nothing is written ahead.
    const body = { model: "tiny", prompt: "23*03-98-37*05=", max_tokens: 128, temperature: 0, tokenrouter: { steps: true } };
    const reply = await (await fetch(`${server.url}/v1/completions`, { method: "POST", body: JSON.stringify(body) })).json();
    const tokens = page.locator('[role="option"]');
    assert.equal((await tokens.allTextContents()).join(""), `${reply.choices[0].text}end`);
    const discarded = await tokens.evaluateAll((all) => all.map((one) => one.classList.contains("discarded")));
    assert.deepEqual(discarded, reply.choices[0].attribution.map((token) => token.steps.length > 1));
    assert.match((await page.locator(".totals dl").innerText()).replaceAll(/\s+/g, " "), /assumed and dropped \d+/);
    assert.deepEqual(errors, []);
    await close();
  } finally {
    held.stop();
    ahead.stop();
  }
});

test("two policies answer one prompt side by side, each with its own threshold", async () => {
  const { page, errors, close } = await openPage(browser, server.url);
  await page.check("#compare");
  const models = await page.locator("#B-model option").evaluateAll((all) => all.map((one) => one.value));
  assert.ok(models.includes("tiny@r-stitch") && models.includes("tiny/large"), models.join());
  await page.selectOption("#B-model", "tiny@r-stitch");
  const panel = (side) => page.getByRole("region", { name: `Answer ${side}` });
  // More nats than the vocabulary can have: the small model is never in doubt.
  await panel("B").getByLabel("threshold, as a number").fill("9");
  await ask(page);
  const bySecond = await panel("B").locator('[role="option"]').evaluateAll((all) => all.filter((one) => one.classList.contains("m1")).length);
  assert.ok((await panel("A").locator(".m1[role=option]").count()) > 0);
  assert.equal(bySecond, 0);
  assert.deepEqual(errors, []);
  await close();
});

test("the timeline shows the steps that the answers were written in", async () => {
  const { page, errors, close } = await openPage(browser, server.url);
  await page.fill("#answers", "8");
  await page.selectOption("#window", "5000000");
  await ask(page);
  const row = page.locator("#timeline tbody tr").first();
  await page.waitForFunction(() => Number(document.querySelector("#timeline tbody td:nth-child(2)")?.textContent) > 10);
  const batch = Number(await row.locator("td").nth(2).textContent());
  assert.ok(batch > 1, `eight answers at once share steps, but the mean batch is ${batch}`);
  await page.locator("canvas").focus();
  await page.keyboard.press("ArrowLeft");
  assert.match(await page.locator(".readout").textContent(), /^small, step \d+: \d+ requests?, \d+ tokens fed, took [\d.]+ ms/);
  assert.deepEqual(errors, []);
  await close();
});

test("what the server refuses is shown in its words", async () => {
  const { page, close } = await openPage(browser, server.url);
  await page.fill("#max-tokens", "100000");
  await ask(page);
  assert.match(await page.locator('.panel [role="alert"]').innerText(), /the models' context is \d+ tokens, but 1000\d\d were asked for/);
  await close();
});

test("a conversation goes on, and a new one begins", async () => {
  const { page, errors, close } = await openPage(browser, server.url);
  await page.check('input[value="chat"]');
  await page.fill("#max-tokens", "8");
  await ask(page);
  await page.fill("#prompt", "12+34=");
  await ask(page);
  assert.deepEqual(await page.locator(".question").allTextContents(), ["23*03-98-37*05=", "12+34="]);
  await page.click("#clear");
  assert.equal(await page.locator(".question").count(), 0);
  assert.deepEqual(errors, []);
  await close();
});

test("a server with keys asks for one and says when it is wrong", async () => {
  const locked = await startServer([], { TOKENROUTER_API_KEYS: API_KEY });
  try {
    const { page, errors, close } = await openPage(browser, locked.url);
    await page.waitForSelector("#key-row:not([hidden])");
    await page.fill("#key", "sk-something-else-0123456789");
    await page.keyboard.press("Tab");
    await page.waitForFunction(() => document.querySelector("#error")?.textContent === "the key is not accepted");
    await page.fill("#key", API_KEY);
    await page.keyboard.press("Tab");
    await page.waitForSelector("#A-model");
    await ask(page);
    assert.ok((await page.locator('[role="option"]').count()) > 10);
    assert.deepEqual(errors, []);
    await close();
  } finally {
    locked.stop();
  }
});

test("the admin page replaces the policy and goes back, and the other page shows it", async () => {
  const clients = await openPage(browser, server.url);
  await clients.page.waitForSelector("#A-model");
  const { page, errors, close } = await openPage(browser, server.admin);
  await page.fill("#key", ADMIN_KEY);
  await page.click("#key-form button");
  await page.waitForSelector("#generations table");
  await page.setInputFiles("#file", inRoot("plugins/dist/random.wasm"));
  assert.equal(await page.inputValue("#name"), "random");
  await page.fill("#options", '{"share": 0.5}');
  await page.check("#activate");
  await page.click("#upload button");
  const done = (text) => page.waitForFunction((text) => document.querySelector("#done")?.textContent?.includes(text), text);
  await done("upload random: random, generation 2. Default: random, generation 2.");
  assert.deepEqual(await findings(page), []);
  await clients.page.waitForSelector('#A-model option[value="tiny@random"]', { state: "attached" });
  assert.equal(await clients.page.locator('#A-model option[value="tiny"]').textContent(), "tiny (default: random)");
  assert.deepEqual(clients.errors, []);
  await clients.close();
  await page.getByRole("button", { name: "Roll back to r-stitch" }).click();
  await done("Default: r-stitch, generation 1.");
  await page.fill("#options", '{"share": "much"}');
  await page.click("#upload button");
  await page.waitForFunction(() => /upload random: .*share/.test(document.querySelector("#error")?.textContent ?? ""));
  assert.deepEqual(errors, []);
  await close();
});

test("no serious finding of accessibility, empty or full, light or dark, wide or narrow", async () => {
  for (const options of [{}, { colorScheme: "dark" }, { viewport: { width: 360, height: 800 } }]) {
    const { page, close } = await openPage(browser, server.url, options);
    await page.waitForSelector("#A-model");
    assert.deepEqual(await findings(page), []);
    await page.check("#compare");
    await ask(page);
    await page.locator('[role="option"]').nth(3).hover();
    assert.deepEqual(await findings(page), []);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.equal(overflow, 0, "the page must not scroll sideways");
    await close();
  }
});
