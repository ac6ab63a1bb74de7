// The real server and a real browser for tests and screenshots.
import { spawn } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { createServer } from "node:http";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { buffer } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const root = fileURLToPath(new URL("../../../../", import.meta.url));
export const ADMIN_KEY = "a-key-of-the-page-tests-0123";

/** The repository's file of this path. */
export const inRoot = (path) => join(root, path);

/** Starts the server at free ports and waits until it listens. `variables` are added to the environment. */
export async function startServer(args = [], variables = {}) {
  const target = process.env.CARGO_TARGET_DIR ?? join(root, "target");
  const binary = process.env.TOKENROUTER_BIN ?? join(target, "release/tokenrouter-host");
  const child = spawn(binary, ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", ...args], {
    env: { ...process.env, TOKENROUTER_ADMIN_KEY: ADMIN_KEY, ...variables },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  child.stderr.on("data", (piece) => (said += piece));
  const server = { url: "", admin: "", stop: () => child.kill() };
  return new Promise((resolve, reject) => {
    child.on("error", (error) => reject(new Error(`cannot start ${binary}: ${error.message}; build it with cargo build --release`)));
    child.on("exit", (code) => reject(new Error(`the server ended with ${code} before it listened:\n${said}`)));
    createInterface(child.stdout).on("line", (line) => {
      const [word, url] = line.trim().split(/\s+/);
      if (word === "admin") {
        server.admin = url;
      } else if (word === "listening") {
        server.url = url;
        resolve(server);
      }
    });
  });
}

/**
 * The same server, seen through a proxy that holds every stream after the event behind which most is assumed, until `release` is
 * called: what is too fast to be looked at stands still.
 */
export async function holdStreams(server) {
  let release;
  const released = new Promise((resolve) => (release = resolve));
  const proxy = createServer(async (request, response) => {
    const body = request.method === "GET" ? undefined : await buffer(request);
    const reply = await fetch(server.url + request.url, { method: request.method, body });
    const passed = ["content-type", "content-security-policy", "tokenrouter-generation"];
    response.writeHead(reply.status, passed.filter((name) => reply.headers.has(name)).map((name) => [name, reply.headers.get(name)]));
    const text = await reply.text();
    const events = text.split(/(?<=\n\n)/);
    const assumed = events.map((event) => event.split('"asked":').length);
    const fullest = reply.headers.get("content-type") === "text/event-stream" ? assumed.indexOf(Math.max(...assumed)) + 1 : events.length;
    response.write(events.slice(0, fullest).join(""));
    if (fullest < events.length) {
      await released;
    }
    response.end(events.slice(fullest).join(""));
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const stop = () => {
    release();
    proxy.close();
    proxy.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${proxy.address().port}`, release, stop };
}

/** Chromium as the system has it: nothing is downloaded. */
function browserPath() {
  const names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
  const places = (process.env.PATH ?? "").split(delimiter).flatMap((folder) => names.map((name) => join(folder, name)));
  for (const path of [process.env.CHROMIUM, ...places]) {
    try {
      accessSync(path ?? "", constants.X_OK);
      return path;
    } catch {
      // Not this one.
    }
  }
  throw new Error("no Chromium was found: install it (Debian: apt-get install chromium) or name it in CHROMIUM");
}

export async function startBrowser() {
  // A container has neither the kernel's sandbox for it nor much shared memory.
  return chromium.launch({ executablePath: browserPath(), args: ["--no-sandbox", "--disable-dev-shm-usage"] });
}

/** A page whose errors are collected: of its script, of its policy, and of requests that failed. */
export async function openPage(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 1000 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    // Statuses that a test provokes are logged as errors too; the page shows them.
    if (message.type() === "error" && !message.text().includes("status of 4")) {
      errors.push(message.text());
    }
  });
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== new URL(url).origin && !request.url().startsWith("data:")) {
      errors.push(`an outside resource: ${request.url()}`);
    }
  });
  await page.goto(url);
  return { page, errors, close: () => context.close() };
}

/** Waits until the answer's panel has its totals settled and Ask can be pressed again. */
export async function ask(page) {
  await page.click("#send");
  await page.waitForSelector("#send:not([disabled])");
}
