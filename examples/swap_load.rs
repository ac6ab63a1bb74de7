//! What replacing the policy costs those who are being answered: `cargo run --release --example swap_load`.
//!
//! Sixteen requests run all the time on the built-in deployment. First two loaded policies take turns 200 times, then they replace
//! each other as often as components that the host has not seen (each is compiled, configured, tried and activated). Reported are the
//! gaps between tokens and how long steps take in both phases, how long an upload takes until it serves, and what is left in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tokenrouter_core::ModelIndex;
use tokenrouter_core::policy::Admitting;
use tokenrouter_engine::stream::Event;
use tokenrouter_engine::{Engine, Job, STEPS_KEPT};
use tokenrouter_host::deployment::{DeploymentFile, EMBEDDED_POLICIES};
use tokenrouter_host::http::App;
use tokenrouter_host::policies::{Activation, Change, Upload};
use tokenrouter_model::Sampling;
use tokenrouter_policy::PolicyInstance;

/// The policies that take turns.
const POLICIES: [&str; 2] = ["r-stitch", "random"];
const CONCURRENCY: usize = 16;
const SWAPS: usize = 200;
/// Swaps before anything is measured, as many as then are: caches fill, and the allocator gets what it keeps, also for what is
/// written down here.
const WARM_UP_SWAPS: usize = SWAPS;
/// How long each policy serves without uploads: about as long as an upload takes.
const PAUSE: Duration = Duration::from_millis(160);
const INSTANCES: usize = 64;

#[expect(clippy::print_stdout, reason = "an example reports what it measured")]
fn main() -> anyhow::Result<()> {
    let mut file = DeploymentFile::built_in()?;
    file.policy.plugin = "random".to_owned();
    file.policy.options = BTreeMap::new();
    let app = App::start(&file, file.load()?)?;
    println!("{:32}{:>10}{:>10}{:>10}", "", "median", "p99", "largest");
    under_load(&app.engine, || {
        (0..WARM_UP_SWAPS).try_for_each(|number| swap(&app, number).map(drop))
    })?;

    // The same change of traffic as often as below, between two policies that are loaded: what uploads add is the difference.
    let quiet = under_load(&app.engine, || {
        (0..SWAPS).try_for_each(|number| {
            std::thread::sleep(PAUSE);
            let change = Change::Activate {
                generation: None,
                options: None,
                activation: Activation { as_default: true },
            };
            app.manager
                .change("swap_load", POLICIES[number % POLICIES.len()], &change, None)?;
            Ok(())
        })
    })?;
    quiet.print("no uploads");
    let memory_before = resident_bytes()?;

    let (mut uploads, mut compiles) = (Vec::new(), Vec::new());
    let swapping = under_load(&app.engine, || {
        for number in 0..SWAPS {
            let (upload, compile) = swap(&app, WARM_UP_SWAPS + number)?;
            uploads.push(upload.as_micros() as u64);
            compiles.push(compile.as_micros() as u64);
        }
        Ok(())
    })?;
    swapping.print("uploads");
    print_row("upload until it serves, us", uploads);
    print_row("  of that compiling, us", compiles);
    // Subservers let go of instances when they next look into their inboxes.
    std::thread::sleep(Duration::from_millis(200));
    let memory_after = resident_bytes()?;
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!("{SWAPS} swaps, {} generations left", app.engine.generations().len());
    println!(
        "memory: {:.1} MiB before, {:.1} MiB after ({:+.2} %)",
        mebibytes(memory_before),
        mebibytes(memory_after),
        (memory_after as f64 / memory_before as f64 - 1.0) * 100.0
    );
    instances(&app)
}

/// Uploads and activates a component that the host has not seen. How long that took, and how long compiling did.
fn swap(app: &App, number: usize) -> anyhow::Result<(Duration, Duration)> {
    let name = POLICIES[number % POLICIES.len()];
    let embedded = EMBEDDED_POLICIES.iter().find(|(known, _)| *known == name);
    let (_, bytes) = embedded.context("the policy is part of the binary")?;
    let start = Instant::now();
    let upload = Upload {
        name: name.to_owned(),
        bytes: never_seen(bytes, number),
        options: BTreeMap::new(),
        sha256: None,
        signature: None,
        expected: None,
        activate: Some(Activation { as_default: true }),
    };
    let done = app.manager.upload("swap_load", upload)?;
    Ok((start.elapsed(), done.compile_time))
}

/// First calls make an instance; second ones do not.
#[expect(clippy::print_stdout, reason = "an example reports what it measured")]
fn instances(app: &App) -> anyhow::Result<()> {
    let traffic = app.engine.traffic();
    let served = traffic.policies.first().context("a policy serves")?;
    let mut made: Vec<PolicyInstance> = Vec::new();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let admitting = Admitting {
        seed: 1,
        prompt: &[1],
        max_tokens: 1,
        temperature: 0.0,
    };
    let before = resident_bytes()?;
    for _ in 0..INSTANCES {
        let mut instance = served.generation().instance();
        for times in [&mut first, &mut second] {
            let start = Instant::now();
            instance.admit(&admitting, &[])?;
            times.push(start.elapsed().as_nanos() as u64 / 1_000);
        }
        made.push(instance);
    }
    let bytes = resident_bytes()?.saturating_sub(before) / INSTANCES as u64;
    print_row("first call: instance, init, us", first);
    print_row("second call, us", second);
    println!("memory of an idle instance: {} KiB", bytes >> 10);
    Ok(())
}

/// What was measured under load, microseconds.
struct Times {
    /// Between two tokens of an answer.
    gaps: Vec<u64>,
    /// Steps of each model.
    steps: [Vec<u64>; 2],
}

impl Times {
    fn print(self, when: &str) {
        print_row(&format!("gap between tokens, {when}, us"), self.gaps);
        for (model, steps) in ["small", "large"].into_iter().zip(self.steps) {
            print_row(&format!("step of {model}, {when}, us"), steps);
        }
    }
}

/// Runs `work` while requests run.
fn under_load(engine: &Arc<Engine>, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Times> {
    let (over, seeds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CONCURRENCY)
            .map(|_| {
                scope.spawn(|| {
                    let mut gaps = Vec::new();
                    while !over.load(Ordering::Relaxed) {
                        answer(engine, seeds.fetch_add(1, Ordering::Relaxed), &mut gaps)?;
                    }
                    anyhow::Ok(gaps)
                })
            })
            .collect();
        let watch = scope.spawn(|| steps(engine, &over));
        let worked = work();
        over.store(true, Ordering::Relaxed);
        let panicked = |_| anyhow::anyhow!("a thread panicked");
        let mut times = Times {
            gaps: Vec::new(),
            steps: watch.join().map_err(panicked)?,
        };
        for client in clients {
            times.gaps.extend(client.join().map_err(panicked)??);
        }
        worked?;
        Ok(times)
    })
}

/// How long the steps of each model take until it is over. The engine keeps the newest, so they are fetched all along.
fn steps(engine: &Engine, over: &AtomicBool) -> [Vec<u64>; 2] {
    let model = |index: usize| ModelIndex(index as u32);
    let newest = |index| engine.steps(model(index), 0, 1).last().map_or(0, |step| step.number);
    let mut seen = [newest(0), newest(1)];
    let mut times = [Vec::new(), Vec::new()];
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
        for (index, (seen, times)) in seen.iter_mut().zip(&mut times).enumerate() {
            for step in engine.steps(model(index), *seen, STEPS_KEPT) {
                *seen = step.number;
                times.push(step.took_us);
            }
        }
    }
    times
}

fn answer(engine: &Engine, seed: u64, gaps: &mut Vec<u64>) -> anyhow::Result<()> {
    let mut stream = engine.submit(&Job {
        prompt: engine.tokenizer().encode_prompt("23*03-98-37*05=")?,
        max_tokens: 64,
        sampling: Sampling {
            temperature: 1.0,
            ..Sampling::GREEDY
        },
        seed,
        ..Job::default()
    })?;
    let mut last = None;
    while let Some(event) = stream.next_blocking() {
        if let Event::End(ended) = &event {
            ensure!(
                !matches!(ended.finish, tokenrouter_engine::Finish::Failed(_)),
                "seed {seed}: {:?}",
                ended.finish
            );
        }
        let now = Instant::now();
        if let Some(last) = last.replace(now) {
            gaps.push(now.duration_since(last).as_micros() as u64);
        }
    }
    Ok(())
}

/// The component with a custom section that makes its digest a new one.
fn never_seen(bytes: &[u8], number: usize) -> Vec<u8> {
    let content = format!("number {number:08}");
    // Section 0: its size, then its name with the name's length.
    let mut section = vec![0, content.len() as u8 + 1, content.len() as u8];
    section.extend(content.bytes());
    [bytes, &section].concat()
}

fn resident_bytes() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("no VmRSS")?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kibibytes << 10)
}

#[expect(clippy::print_stdout, reason = "an example reports what it measured")]
fn print_row(label: &str, mut times: Vec<u64>) {
    times.sort_unstable();
    let at = |share: f64| {
        times
            .get(((times.len() as f64 - 1.0) * share) as usize)
            .copied()
            .unwrap_or(0)
    };
    println!("{label:32}{:>10}{:>10}{:>10}", at(0.5), at(0.99), at(1.0));
}
