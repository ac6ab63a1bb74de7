// Makes unsure-js.wasm: the JavaScript engine and policy.js in one component. Everything that would need an import from the
// system is left out, since the host gives a policy nothing but `log`.
import { componentize } from "@bytecodealliance/componentize-js";
import { writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));

const { component, imports } = await componentize({
  sourcePath: path("policy.js"),
  witPath: path("../../wit/policy.wit"),
  worldName: "policy",
  disableFeatures: ["random", "stdio", "clocks", "http", "fetch-event"],
});
const foreign = imports.filter(([name]) => name !== "log");
if (foreign.length > 0) throw new Error(`the component imports ${JSON.stringify(foreign)}; a policy may import only log`);
await writeFile(path("unsure-js.wasm"), component);
console.log(`unsure-js.wasm: ${component.length} bytes`);
