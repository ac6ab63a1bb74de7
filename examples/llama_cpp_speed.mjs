// The figures of `cargo run --release --example cpu_speed` for llama.cpp on the same GGUF file: decoded tokens a second at
// batch 1, 4 and 8 and prompt tokens a second. In a folder outside of the repository:
//
//     npm install --ignore-scripts node-llama-cpp @node-llama-cpp/linux-x64
//     NODE_PATH=. node PATH/examples/llama_cpp_speed.mjs MODEL.gguf [1,2] [--cpu-time]
//
// Sequences decode greedily and together, as node-llama-cpp batches them; each number is the best of several runs.
// --cpu-time counts the processor time of the process instead, for machines that are busy with other programs (one thread).
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";
import path from "node:path";

const args = process.argv.slice(2).filter((arg) => arg !== "--cpu-time");
const cpuTime = process.argv.includes("--cpu-time");
const [modelPath, threadList = "1,2"] = args;
const require = createRequire(path.join(process.cwd(), "package.json"));
const {getLlama} = await import(pathToFileURL(require.resolve("node-llama-cpp")).href);

const PAST = 64, DECODED = 16, PROMPT = 512, RUNS = 3;

const best = async (run) => {
    let best = Infinity;
    for (let i = 0; i < RUNS; i++) best = Math.min(best, await run());
    return best;
};
const now = () => {
    const {user, system} = process.cpuUsage();
    return cpuTime ? (user + system) / 1e6 : Number(process.hrtime.bigint()) / 1e9;
};
const tokens = (first, count) => Array.from({length: count}, (_, i) => ((first + i) * 7919 + 3) % 49152);

console.log(`llama.cpp       threads  decode x1  decode x4  decode x8  prefill ${PROMPT}  (tokens/s)`);
for (const threads of threadList.split(",").map(Number)) {
    const llama = await getLlama({gpu: false, build: "never", maxThreads: threads, logLevel: "error"});
    const model = await llama.loadModel({modelPath});
    const row = [];
    for (const rows of [1, 4, 8]) {
        const context = await model.createContext({contextSize: 640, sequences: rows, batchSize: 512, threads});
        const sequences = Array.from({length: rows}, () => context.getSequence());
        row.push(rows * DECODED / await best(async () => {
            for (const sequence of sequences) await sequence.clearHistory();
            await Promise.all(sequences.map((s, i) => s.evaluateWithoutGeneratingNewTokens(tokens(i * PAST, PAST))));
            // The first token of each takes the prompt's last one along; the clock starts behind it.
            const answers = sequences.map((s, i) => s.evaluate([tokens(i, 1)[0]], {temperature: 0, yieldEogToken: true}));
            await Promise.all(answers.map((answer) => answer.next()));
            const start = now();
            await Promise.all(answers.map(async (answer) => {
                for (let i = 0; i < DECODED; i++) await answer.next();
            }));
            const taken = now() - start;
            await Promise.all(answers.map((answer) => answer.return()));
            return taken;
        }));
        await context.dispose();
    }
    const context = await model.createContext({contextSize: 640, sequences: 1, batchSize: 512, threads});
    const sequence = context.getSequence();
    row.push(PROMPT / await best(async () => {
        await sequence.clearHistory();
        const start = now();
        await sequence.evaluateWithoutGeneratingNewTokens(tokens(0, PROMPT));
        return now() - start;
    }));
    await context.dispose();
    await model.dispose();
    await llama.dispose();
    const cells = row.map((speed, i) => speed.toFixed(0).padStart(i < 3 ? 9 : 11));
    console.log(`${"".padEnd(14)}  ${String(threads).padStart(7)}  ${cells.join("  ")}`);
}
process.exit(0);
