// Makes the pictures of docs/screenshots: `npm run screenshots` with the server built.
import { mkdir } from "node:fs/promises";
import { ADMIN_KEY, ask, holdStreams, inRoot, openPage, startBrowser, startServer } from "./test/harness.mjs";

const folder = inRoot("docs/screenshots");
await mkdir(folder, { recursive: true });
const [browser, server] = await Promise.all([startBrowser(), startServer()]);

async function picture(name, url, options, act) {
  const { page, close } = await openPage(browser, url, options);
  await act(page);
  await page.evaluate(() => window.scrollTo(0, 0));
  await page.waitForTimeout(400);
  await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
  await close();
}

/** Asks, and points at a token whose first candidate was discarded. */
async function answered(page) {
  await page.waitForSelector("#A-model");
  await page.fill("#answers", "8");
  await ask(page);
  await page.selectOption("#window", "50000");
  await page.locator(".token.discarded").first().hover();
}

try {
  await picture("wide", server.url, {}, answered);
  await picture("dark", server.url, { colorScheme: "dark" }, answered);
  await picture("narrow", server.url, { viewport: { width: 380, height: 800 } }, answered);
  await picture("side-by-side", server.url, {}, async (page) => {
    await page.check("#compare");
    await page.selectOption("#B-model", "tiny/small");
    await answered(page);
  });
  await picture("error", server.url, {}, async (page) => {
    await page.fill("#max-tokens", "100000");
    await ask(page);
  });
  // Clocks in place of models: every step takes what it would on a GPU, so the rhythm of delayed batching can be seen.
  const clocks = await startServer(["--config", inRoot("config/simulated.toml")]);
  const { page, close } = await openPage(browser, clocks.url);
  await page.waitForSelector("#A-model");
  await page.fill("#prompt", "1+1=");
  await page.fill("#answers", "16");
  await page.fill("#max-tokens", "400");
  await page.fill("#temperature", "1");
  await page.getByLabel("share, as a number").fill("0.35");
  await page.click("#send");
  // In the middle of it: towards the end, fewer and fewer answers are left.
  await page.waitForTimeout(3000);
  await page.locator("#timeline").locator("xpath=..").screenshot({ path: `${folder}/timeline.png` });
  await close();
  clocks.stop();
  // In the middle of an answer, while the large model is asked: what the small one has written meanwhile.
  const optimistic = await startServer(["--optimistic", "window:4"]);
  const held = await holdStreams(optimistic);
  const ahead = await openPage(browser, held.url);
  await ahead.page.waitForSelector("#A-model");
  await ahead.page.click("#send");
  await ahead.page.locator(".token.assumed").first().waitFor();
  await ahead.page.locator(".panel").screenshot({ path: `${folder}/ahead.png` });
  await ahead.close();
  held.stop();
  optimistic.stop();
  await picture("admin", server.admin, {}, async (page) => {
    await page.fill("#key", ADMIN_KEY);
    await page.click("#key-form button");
    await page.setInputFiles("#file", inRoot("plugins/dist/random.wasm"));
    await page.fill("#options", '{"share": 0.2}');
    await page.click("#upload button");
    await page.waitForFunction(() => document.querySelector("#done")?.textContent?.includes("generation 2"));
  });
} finally {
  await browser.close();
  server.stop();
}
