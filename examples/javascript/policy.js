// A routing policy in JavaScript: asks the last model for every token that the first is not sure of. The functions are
// those of wit/policy.wit, with its names in camel case; docs/other-languages.md tells how to build and serve it.

const NAME = "unsure-js";
const DEFAULT_LIMIT = 0.9;

let models = 0;
let limit = DEFAULT_LIMIT;

export function describe() {
  return {
    name: NAME,
    version: "0.1.0",
    summary: "Asks the last model for every token that the first is not sure of",
    options: [
      {
        name: "limit",
        summary: "ask the last model below this probability, 0 to 1",
        default: { tag: "number", val: DEFAULT_LIMIT },
        perRequest: true,
      },
    ],
  };
}

// What is thrown here is the error of the contract's result: the host shows it to whoever wrote the configuration.
export function init(deployment, config) {
  models = deployment.models.length;
  if (models < 2) throw `deployment "${deployment.name}" has ${models} model; this policy needs at least 2`;
  limit = readLimit(config, DEFAULT_LIMIT);
  return {
    entry: 0,
    stateWords: 1,
    signals: deployment.models.map((_, index) => (index === 0 ? [{ tag: "max-probability" }] : [])),
    texts: false,
  };
}

export function admit(request) {
  return { model: 0, state: [toWord(readLimit(request.options, limit))] };
}

export function route(at, batch) {
  const rows = batch.candidates.length;
  const destinations = new Uint32Array(rows);
  if (at === 0) {
    for (let row = 0; row < rows; row++) {
      // Written so that what is not a number counts as unsure.
      const sure = batch.signals[row] >= fromWord(batch.state[row]);
      destinations[row] = sure ? 0 : models - 1;
    }
  }
  return { destinations, state: batch.state };
}

// The first model's doubtful token is discarded, the last model's is kept.
export function send(at, to, step) {
  return { keepCandidate: at !== 0, state: step.state };
}

export function receive(at, from, parcel) {
  return parcel.state;
}

function readLimit(settings, fallback) {
  for (const { name, value } of settings) {
    if (name !== "limit") throw `unknown option "${name}"; this policy has: limit`;
    if (value.tag !== "number" || !(value.val >= 0 && value.val <= 1)) {
      throw 'option "limit" must be a number between 0 and 1';
    }
    return value.val;
  }
  return fallback;
}

// A word of state is 64 bits: the limit as the bits of a double.
const number = new Float64Array(1);
const word = new BigUint64Array(number.buffer);

function toWord(value) {
  number[0] = value;
  return word[0];
}

function fromWord(bits) {
  word[0] = bits;
  return number[0];
}
