//! What a model runs on, and how much KV it has room for there.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use tokenrouter_core::ModelIndex;
use tokenrouter_model::cuda::{CudaError, CudaOptions, CudaRunner, Device, GraphLimits, budget};
use tokenrouter_model::{ModelError, ModelInfo, Runner, Source};

use super::{DeploymentError, DeploymentFile, Whole};

/// Tokens in each pool where the file says nothing and every model runs on the CPU.
const KV_TOKENS_CPU: usize = 16_384;

/// `cpu` or `cuda:N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum DeviceName {
    /// The host's processor.
    #[default]
    Cpu,
    /// An NVIDIA GPU, by the driver's number.
    Cuda(usize),
}

/// A text that names no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no device \"{0}\"; write \"cpu\", or \"cuda:0\" for the first NVIDIA GPU, \"cuda:1\" for the second")]
pub struct DeviceNameError(String);

impl std::str::FromStr for DeviceName {
    type Err = DeviceNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "cpu" {
            return Ok(Self::Cpu);
        }
        let number = text
            .strip_prefix("cuda:")
            .filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        match number.and_then(|number| number.parse().ok()) {
            Some(ordinal) => Ok(Self::Cuda(ordinal)),
            None => Err(DeviceNameError(text.to_owned())),
        }
    }
}

impl TryFrom<String> for DeviceName {
    type Error = DeviceNameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

/// How models run on GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct CudaEntry {
    /// How much of a device's memory weights and KV may take, per cent.
    pub memory_percent: Whole<1, 100>,
    /// Steps of up to so many new tokens run as CUDA graphs; 0: none do.
    pub graph_tokens_max: Whole<0, 1_024>,
    /// Graphs that are kept of each model.
    pub graphs_max: Whole<0, 4_096>,
}

impl Default for CudaEntry {
    fn default() -> Self {
        let limits = GraphLimits::default();
        Self {
            memory_percent: Whole::new(85),
            graph_tokens_max: Whole::new(limits.tokens_max as u32),
            graphs_max: Whole::new(limits.graphs_max as u32),
        }
    }
}

impl CudaEntry {
    /// The runners' share of it.
    pub fn options(&self) -> CudaOptions {
        CudaOptions {
            graphs: GraphLimits {
                tokens_max: self.graph_tokens_max.size(),
                graphs_max: self.graphs_max.size(),
            },
        }
    }
}

/// The devices of a deployment, each opened when its first model is loaded.
#[derive(Default)]
pub(super) struct Devices(BTreeMap<usize, Device>);

impl Devices {
    /// Loads a model onto a GPU.
    pub(super) fn runner(
        &mut self,
        ordinal: usize,
        source: &Source,
        index: ModelIndex,
        options: CudaOptions,
    ) -> Result<Box<dyn Runner>, ModelError> {
        let device = self.open(ordinal)?;
        Ok(Box::new(CudaRunner::load(&device, source, index, options)?))
    }

    /// A device, opened once.
    ///
    /// # Errors
    /// No driver, no such device, or one that cannot run the kernels.
    pub(super) fn open(&mut self, ordinal: usize) -> Result<Device, CudaError> {
        if let Some(device) = self.0.get(&ordinal) {
            return Ok(device.clone());
        }
        let device = Device::open(ordinal)?;
        self.0.insert(ordinal, device.clone());
        Ok(device)
    }

    /// Tokens in every model's pool: what the file says, else what all open devices have room for, but no more than running
    /// requests could use. `infos` are the models of the file; `coming_bytes` is what a device will still take for weights.
    pub(super) fn kv_tokens(
        &self,
        file: &DeploymentFile,
        infos: &[&ModelInfo],
        coming_bytes: impl Fn(usize) -> u64,
    ) -> Result<usize, DeploymentError> {
        let given = file.limits.kv_tokens.map(Whole::size);
        let context_max = infos.iter().map(|info| info.context_max as usize).min().unwrap_or(0);
        let used_max = file.limits.requests_running_max.size().saturating_mul(context_max);
        let mut tokens = if self.0.is_empty() {
            KV_TOKENS_CPU
        } else {
            used_max.max(KV_TOKENS_CPU)
        };
        for (ordinal, device) in &self.0 {
            let (free, total_bytes) = device.memory_bytes().map_err(DeploymentError::Device)?;
            let here = file
                .models
                .iter()
                .zip(infos)
                .filter(|(entry, _)| entry.device == DeviceName::Cuda(*ordinal));
            let memory = budget::DeviceMemory {
                device: DeviceName::Cuda(*ordinal).to_string(),
                total_bytes,
                taken_bytes: total_bytes.saturating_sub(free).saturating_add(coming_bytes(*ordinal)),
                percent: file.cuda.memory_percent.get(),
                models: here
                    .map(|(entry, info)| (entry.name.clone(), info.kv_bytes_per_token))
                    .collect(),
            };
            let failed = |error: budget::BudgetError| DeploymentError::Device(error.into());
            match given {
                Some(given) => budget::check(&memory, given).map_err(failed)?,
                None => tokens = tokens.min(budget::kv_tokens(&memory).map_err(failed)?),
            }
        }
        Ok(given.unwrap_or(tokens))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_named_as_the_driver_counts_it() {
        assert_eq!("cpu".parse(), Ok(DeviceName::Cpu));
        assert_eq!("cuda:0".parse(), Ok(DeviceName::Cuda(0)));
        assert_eq!("cuda:12".parse(), Ok(DeviceName::Cuda(12)));
        for wrong in [
            "",
            "gpu",
            "cuda",
            "cuda:",
            "cuda:-1",
            "cuda:+1",
            "cuda:x",
            "cuda:0 ",
            "CPU",
            "cuda:99999999999999999999",
        ] {
            let error = wrong.parse::<DeviceName>().unwrap_err().to_string();
            assert!(
                error.contains(&format!("\"{wrong}\"")) && error.contains("\"cuda:0\""),
                "{error}"
            );
        }
    }

    #[test]
    fn keys_of_the_file_reach_the_runners() {
        let text = "name = \"d\"\n[[models]]\nname = \"m\"\nsource = \"x\"\ndevice = \"cuda:1\"\n\
                    [cuda]\nmemory_percent = 50\ngraph_tokens_max = 0\ngraphs_max = 7\n";
        let file = DeploymentFile::parse(text, "d.toml", std::path::Path::new("")).unwrap();
        assert_eq!(file.models[0].device, DeviceName::Cuda(1));
        assert_eq!(file.cuda.memory_percent.get(), 50);
        assert_eq!(
            file.cuda.options().graphs,
            GraphLimits {
                tokens_max: 0,
                graphs_max: 7
            }
        );
        let wrong = DeploymentFile::parse(&text.replace("cuda:1", "tpu:0"), "d.toml", std::path::Path::new(""));
        let error = wrong.unwrap_err().to_string();
        assert!(
            error.starts_with("d.toml:5:") && error.contains("there is no device \"tpu:0\""),
            "{error}"
        );
    }
}
