// Makes dist/ of src/: one script, one style sheet, two pages. What is committed there is what the server embeds.
import { build } from "esbuild";
import { copyFile, mkdir } from "node:fs/promises";

const from = new URL("src/", import.meta.url);
const to = new URL("dist/", import.meta.url);

await mkdir(to, { recursive: true });
await build({
  entryPoints: { app: new URL("app.ts", from).pathname, style: new URL("style.css", from).pathname },
  outdir: to.pathname,
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome115", "firefox115", "safari16.4"],
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
});
for (const page of ["index.html", "admin.html"]) {
  await copyFile(new URL(page, from), new URL(page, to));
}
