//! How fast a model runs on the CPU: decoded tokens a second at batch 1, 4 and 8, prompt tokens a second, and what two such models
//! decode at batch 8 when both are busy, per number of threads and way to hold weights.
//!
//!     cargo run --release --example cpu_speed -- MODEL.gguf|FOLDER [--threads 1,2] [--weights auto,q4,q8_0,bf16,f32] [--cpu-time]
//!
//! Each number is the best of several runs, because other programs on the machine only ever take time away. Where they take
//! most of it, `--cpu-time` counts the processor time of the calling thread instead (Linux, one thread).
#![expect(clippy::print_stdout, reason = "a measurement shows its figures")]

use std::path::Path;
use std::time::Instant;

use tokenrouter_core::step::{StepBatch, StepRow};
use tokenrouter_core::{BlockId, ModelIndex, RequestId, TokenId};
use tokenrouter_model::{CpuOptions, DecoderRunner, RowAsk, Runner, Source, StepOutput};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// Tokens in front of every decoded one.
const PAST: u32 = 64;
/// Decoded tokens a row in one run.
const DECODED: u32 = 16;
/// Tokens of the prompt whose reading is measured.
const PROMPT: u32 = 512;
const RUNS: usize = 3;
const BLOCKS_EACH: u32 = 40;

/// `rows` rows that feed `len` tokens from `position`; only the last position gives logits.
fn batch(rows: u32, position: u32, len: u32, vocabulary: u32) -> StepBatch {
    let token = |i: u32| ((i * 7_919 + position * 31 + 3) % vocabulary) as TokenId;
    StepBatch {
        tokens: (0..rows * len).map(token).collect(),
        rows: (0..rows)
            .map(|r| StepRow {
                request: RequestId(u64::from(r)),
                first: r * len,
                len,
                position,
                logits: 1,
                blocks: r * BLOCKS_EACH..(r + 1) * BLOCKS_EACH,
                shared: 0,
            })
            .collect(),
        blocks: (0..rows * BLOCKS_EACH).map(BlockId).collect(),
    }
}

/// What seconds are counted.
#[derive(Clone, Copy)]
enum Clock {
    Wall,
    /// Those in which the calling thread ran.
    Processor,
}

impl Clock {
    fn seconds(self, since: Instant) -> Fallible<f64> {
        match self {
            Self::Wall => Ok(since.elapsed().as_secs_f64()),
            Self::Processor => {
                let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
                let nanoseconds = text.split(' ').next().ok_or("/proc/thread-self/schedstat is empty")?;
                Ok(nanoseconds.parse::<f64>()? / 1e9)
            }
        }
    }

    /// The shortest of several runs, in seconds.
    fn best(self, mut run: impl FnMut() -> Fallible<()>) -> Fallible<f64> {
        let (mut best, since) = (f64::INFINITY, Instant::now());
        for _ in 0..RUNS {
            let start = self.seconds(since)?;
            run()?;
            best = best.min(self.seconds(since)? - start);
        }
        Ok(best)
    }
}

/// Runs the steps of one measurement of decoding.
fn decode(runner: &mut DecoderRunner, rows: u32, out: &mut StepOutput) -> Fallible<()> {
    let (asks, vocabulary) = (vec![RowAsk::GREEDY; rows as usize], runner.info().vocabulary);
    for position in PAST..PAST + DECODED {
        runner.step(&batch(rows, position, 1, vocabulary), &asks, &[Vec::new()], out)?;
    }
    Ok(())
}

/// Tokens a second of two models that decode batches of 8 at the same time, together.
fn two_at_once(source: &Source, options: CpuOptions) -> Fallible<f64> {
    let mut models = Vec::new();
    for _ in 0..2 {
        let mut runner = DecoderRunner::load_with(source, ModelIndex(0), options)?;
        runner.allocate(8 * BLOCKS_EACH as usize)?;
        decode(&mut runner, 8, &mut StepOutput::default())?;
        models.push(runner);
    }
    let seconds = Clock::Wall.best(|| {
        std::thread::scope(|scope| {
            let both = models.iter_mut().map(|runner| {
                scope.spawn(|| decode(runner, 8, &mut StepOutput::default()).map_err(|error| error.to_string()))
            });
            let both: Vec<_> = both.collect();
            for one in both {
                one.join().map_err(|_| "a model panicked")??;
            }
            Ok(())
        })
    })?;
    Ok(f64::from(2 * 8 * DECODED) / seconds)
}

/// A line of figures.
fn measure(source: &Source, options: CpuOptions, clock: Clock) -> Fallible<String> {
    let mut runner = DecoderRunner::load_with(source, ModelIndex(0), options)?;
    let vocabulary = runner.info().vocabulary;
    runner.allocate(8 * BLOCKS_EACH as usize)?;
    let (plans, mut out) = ([Vec::new()], StepOutput::default());
    let mut speeds = Vec::new();
    for rows in [1, 4, 8] {
        let asks = vec![RowAsk::GREEDY; rows as usize];
        runner.step(&batch(rows, 0, PAST, vocabulary), &asks, &plans, &mut out)?;
        let seconds = clock.best(|| decode(&mut runner, rows, &mut out))?;
        speeds.push(f64::from(rows * DECODED) / seconds);
    }
    let prompt = batch(1, 0, PROMPT, vocabulary);
    let seconds = clock.best(|| Ok(runner.step(&prompt, &[RowAsk::GREEDY], &plans, &mut out)?))?;
    let (bytes, held) = runner.decoder().held();
    Ok(format!(
        "{held:<12} {:>5.0}  {:>7}  {:>9.0}  {:>9.0}  {:>9.0}  {:>11.0}  {:>11.0}",
        bytes as f64 / 1e6,
        options.threads,
        speeds[0],
        speeds[1],
        speeds[2],
        f64::from(PROMPT) / seconds,
        two_at_once(source, options)?,
    ))
}

fn main() -> Fallible<()> {
    let (mut model, mut threads, mut formats) = (None, "1,2".to_owned(), "auto".to_owned());
    let mut clock = Clock::Wall;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--threads" => threads = args.next().ok_or("--threads needs a list")?,
            "--weights" => formats = args.next().ok_or("--weights needs a list")?,
            "--cpu-time" => clock = Clock::Processor,
            _ => model = Some(arg),
        }
    }
    let model = model.ok_or("name a GGUF file or a folder")?;
    let source = match model.ends_with(".gguf") {
        true => Source::Gguf(Path::new(&model).to_owned()),
        false => Source::Folder(Path::new(&model).to_owned()),
    };
    println!("weights         MB  threads  decode x1  decode x4  decode x8  prefill {PROMPT}  two at once  (tokens/s)");
    for weights in formats.split(',') {
        for threads in threads.split(',') {
            let options = CpuOptions {
                threads: threads.parse()?,
                weights: weights.parse()?,
            };
            println!("{}", measure(&source, options, clock)?);
        }
    }
    Ok(())
}
