//! What the deployment will take of the machine: devices, KV, memory, threads.

use tokenrouter_model::heads::HeadInput;
use tokenrouter_model::runner::ModelInfo;

use super::models::{Examined, Model};
use super::size::bytes;
use super::{Findings, Level};
use crate::deployment::device::Devices;
use crate::deployment::{DeploymentError, DeploymentFile, DeviceName, LoadedHead};

/// What a machine has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    /// Threads that run at once.
    pub(super) cores: usize,
    /// All of its memory, and what of it is free, bytes; `None` where the system does not say.
    pub(super) memory_bytes: Option<(u64, u64)>,
}

impl Machine {
    /// This one. Memory as `/proc/meminfo` has it.
    pub(super) fn this() -> Self {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: meminfo(&text, "MemTotal:").zip(meminfo(&text, "MemAvailable:")),
        }
    }
}

/// A line of `/proc/meminfo`, in bytes.
fn meminfo(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

pub(super) fn check(
    file: &DeploymentFile,
    models: &Examined<'_>,
    heads: &[LoadedHead],
    machine: &Machine,
    findings: &mut Findings,
) {
    let devices = devices(file, findings);
    if let (Some(all), Some(devices)) = (models.all(), devices)
        && let Some(tokens) = kv(file, &all, &devices, findings)
    {
        memory(&all, heads, tokens, machine, findings);
    }
    threads(file, machine.cores, findings);
}

/// All GPUs of the file, opened; `None` if one cannot be.
fn devices(file: &DeploymentFile, findings: &mut Findings) -> Option<Devices> {
    let mut devices = Some(Devices::default());
    let mut names: Vec<DeviceName> = file.models.iter().map(|entry| entry.device).collect();
    names.dedup();
    for name in names {
        let DeviceName::Cuda(ordinal) = name else { continue };
        let about = format!("device {name}");
        let opened = match &mut devices {
            Some(devices) => devices.open(ordinal),
            None => Devices::default().open(ordinal),
        };
        let memory = opened.and_then(|device| device.memory_bytes());
        match findings.take(&about, memory.map_err(DeploymentError::Device)) {
            Some((free, total)) => {
                let what = format!("{} free of {}", bytes(free), bytes(total));
                findings.add(Level::Ok, about, what);
            }
            None => devices = None,
        }
    }
    devices
}

/// Tokens in every pool, held against what requests may be.
fn kv(
    file: &DeploymentFile,
    all: &[(&Model<'_>, &ModelInfo)],
    devices: &Devices,
    findings: &mut Findings,
) -> Option<usize> {
    const ABOUT: &str = "KV";
    let infos: Vec<&ModelInfo> = all.iter().map(|(_, info)| *info).collect();
    let coming = |ordinal: usize| -> u64 {
        let here = all
            .iter()
            .filter(|(model, _)| model.opened.entry.device == DeviceName::Cuda(ordinal));
        here.filter_map(|(model, _)| model.weights_bytes).sum()
    };
    let tokens = findings.take(ABOUT, devices.kv_tokens(file, &infos, coming))?;
    let per_token: u64 = infos.iter().map(|info| info.kv_bytes_per_token).sum();
    let context = infos.iter().map(|info| info.context_max as usize).min().unwrap_or(0);
    let running = file.limits.requests_running_max.size();
    findings.add(
        Level::Ok,
        ABOUT,
        format!(
            "{tokens} tokens at each model, {} in all; {} for each of {running} requests, when as many run",
            bytes(per_token.saturating_mul(tokens as u64)),
            tokens / running
        ),
    );
    if tokens < context {
        let what = format!(
            "prompt and answer may have {tokens} tokens together, though the models take {context}. Raise limits.kv_tokens if requests \
             are longer; {context} take {}",
            bytes(per_token.saturating_mul(context as u64))
        );
        findings.add(Level::Warn, ABOUT, what);
    }
    Some(tokens)
}

/// What weights, heads and KV take of the host's memory.
fn memory(
    all: &[(&Model<'_>, &ModelInfo)],
    heads: &[LoadedHead],
    tokens: usize,
    machine: &Machine,
    findings: &mut Findings,
) {
    const ABOUT: &str = "memory";
    let on_cpu = || {
        all.iter()
            .filter(|(model, _)| model.opened.entry.device == DeviceName::Cpu)
    };
    let Some(weights) = on_cpu().map(|(model, _)| model.weights_bytes).sum::<Option<u64>>() else {
        return;
    };
    let per_token: u64 = on_cpu().map(|(_, info)| info.kv_bytes_per_token).sum();
    let kv = per_token.saturating_mul(tokens as u64);
    // A head that reads tokens has the embedding table in f32 beside it, once a model.
    let tables = (all.iter().enumerate())
        .filter(|(index, _)| {
            let mut own = heads.iter().filter(|head| head.index.index() == *index);
            own.any(|head| head.header.reads(HeadInput::Token))
        })
        .map(|(_, (model, _))| 4 * (model.opened.config.vocab_size * model.opened.config.hidden_size) as u64);
    let heads: u64 = heads.iter().map(|head| 4 * head.parameters).sum::<u64>() + tables.sum::<u64>();
    let needed = weights.saturating_add(kv).saturating_add(heads);
    let said = format!(
        "{} for weights, {} for KV, {} for heads",
        bytes(weights),
        bytes(kv),
        bytes(heads)
    );
    let Some((total, free)) = machine.memory_bytes else {
        findings.add(Level::Ok, ABOUT, said);
        return;
    };
    if needed <= free {
        findings.add(Level::Ok, ABOUT, format!("{said}; {} are free", bytes(free)));
        return;
    }
    let quantised: Option<Vec<[u64; 2]>> = on_cpu().map(|(model, _)| model.quantised_bytes).collect();
    let smaller = quantised.map_or(String::new(), |all| {
        let sum = |place: usize| bytes(all.iter().map(|both| both[place]).sum());
        format!("; with weights = \"q8_0\" they take {}, with \"q4\" {}", sum(0), sum(1))
    });
    let level = if needed > total { Level::Error } else { Level::Warn };
    findings.add(
        level,
        ABOUT,
        format!(
            "{said}; of {} only {} are free. Hold weights in fewer bits, lower limits.kv_tokens, or free memory{smaller}",
            bytes(total),
            bytes(free)
        ),
    );
}

/// Threads of the models on the CPU, beside its cores.
fn threads(file: &DeploymentFile, cores: usize, findings: &mut Findings) {
    const ABOUT: &str = "threads";
    let on_cpu = file.models.iter().filter(|entry| entry.device == DeviceName::Cpu);
    let threads: Vec<usize> = on_cpu.map(|entry| usize::from(entry.threads.get())).collect();
    let (sum, largest) = (
        threads.iter().sum::<usize>(),
        threads.iter().max().copied().unwrap_or(0),
    );
    if largest > cores {
        let what =
            format!("a model has {largest} threads on {cores} cores: its steps wait for each other. Lower `threads`");
        findings.add(Level::Warn, ABOUT, what);
    } else if sum > cores {
        let what = format!("{sum} in all on {cores} cores: models that run at once slow each other. Lower `threads`");
        findings.add(Level::Warn, ABOUT, what);
    } else if sum > 0 {
        findings.add(Level::Ok, ABOUT, format!("{sum} on {cores} cores"));
    }
}
