// Streams an answer and colours every token by the model that wrote it. Node 20 or a browser, no package:
//   node examples/stream.mjs http://127.0.0.1:30000 '23*03-98-37*05='
const [url = "http://127.0.0.1:30000", prompt = "23*03-98-37*05="] = process.argv.slice(2);
const colours = ["", "\x1b[33m", "\x1b[36m", "\x1b[35m"];

const response = await fetch(`${url}/v1/completions`, {
  method: "POST",
  headers: { "content-type": "application/json", authorization: `Bearer ${process.env.TOKENROUTER_API_KEY ?? "none"}` },
  body: JSON.stringify({
    prompt,
    max_tokens: 64,
    temperature: 0,
    stream: true,
    stream_options: { include_usage: true },
    tokenrouter: { attribution: true },
  }),
});
if (!response.ok) {
  throw new Error((await response.json()).error.message);
}

const models = [];
let usage;
for await (const chunk of objects(response.body)) {
  usage = chunk.usage ?? usage;
  for (const { token, model } of chunk.choices[0]?.attribution ?? []) {
    if (!models.includes(model)) {
      models.push(model);
    }
    process.stdout.write(`${colours[models.indexOf(model) % colours.length]}${token}\x1b[0m`);
  }
}
console.log(`\n${JSON.stringify(usage.tokenrouter)}`);

/** The objects of a stream of server-sent events. */
async function* objects(body) {
  let rest = "";
  for await (const piece of body.pipeThrough(new TextDecoderStream())) {
    const events = (rest + piece).split("\n\n");
    rest = events.pop();
    for (const data of events.filter((event) => event.startsWith("data: ")).map((event) => event.slice(6))) {
      if (data === "[DONE]") {
        return;
      }
      const object = JSON.parse(data);
      if (object.error) {
        throw new Error(object.error.message);
      }
      yield object;
    }
  }
}
