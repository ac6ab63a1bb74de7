//! Loading a deployment's models and the tokenizer they share.

use tokenrouter_core::ModelIndex;
use tokenrouter_core::ahead::Optimistic;
use tokenrouter_model::decoder::DecoderFiles;
use tokenrouter_model::runner::Runner;
use tokenrouter_model::text::Tokenizer;
use tokenrouter_model::{DecoderRunner, NullRunner};

use super::device::Devices;
use super::opened::{Opened, broken};
use super::{DeploymentError, DeploymentFile, DeviceName};

/// Runners in the deployment's order, and the tokenizer of the first.
pub(super) struct Models {
    pub(super) runners: Vec<Box<dyn Runner>>,
    pub(super) tokenizer: Tokenizer,
    devices: Devices,
}

impl Models {
    /// Tokenizers first, then the headers of all files: models that cannot work together, and a download that is not
    /// complete, are refused before any weights are read.
    pub(super) fn load(file: &DeploymentFile) -> Result<Self, DeploymentError> {
        let opened: Vec<Opened<'_>> = (file.models.iter())
            .map(|entry| Opened::open(entry, &file.base))
            .collect::<Result<_, _>>()?;
        let tokenizer = tokenizer(file, &opened)?;
        let checked: Vec<_> = (opened.into_iter())
            .map(|model| {
                let reads_here = model.entry.device == DeviceName::Cpu && model.entry.source.simulated().is_none();
                let files = reads_here.then(|| model.files()).transpose()?;
                Ok((model, files))
            })
            .collect::<Result<_, DeploymentError>>()?;
        let mut devices = Devices::default();
        let runners =
            (0..)
                .map(ModelIndex)
                .zip(checked)
                .map(|(index, (model, files))| match (model.entry.device, files) {
                    (DeviceName::Cuda(ordinal), _) => devices
                        .runner(ordinal, &model.source, index, file.cuda.options())
                        .map_err(|source| broken(model.entry, source)),
                    (DeviceName::Cpu, Some(files)) => on_cpu(model, files, index),
                    (DeviceName::Cpu, None) => {
                        let runner = NullRunner::new(model.info()?, index);
                        let step_time = model.entry.source.simulated().unwrap_or_default();
                        let ahead = file.launch.optimistic.0 != Optimistic::Off;
                        Ok(Box::new(runner.with_step_time(step_time).with_going_back(ahead)) as Box<dyn Runner>)
                    }
                });
        let runners = runners.collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            runners,
            tokenizer,
            devices,
        })
    }

    /// Tokens in every model's KV pool. Asked for once everything else is on the devices, heads too.
    pub(super) fn kv_tokens(&self, file: &DeploymentFile) -> Result<usize, DeploymentError> {
        let infos: Vec<_> = self.runners.iter().map(|runner| runner.info()).collect();
        self.devices.kv_tokens(file, &infos, |_| 0)
    }
}

/// The tokenizer of the first model, once all others are known to share its vocabulary.
fn tokenizer(file: &DeploymentFile, opened: &[Opened<'_>]) -> Result<Tokenizer, DeploymentError> {
    let Some((first, others)) = opened.split_first() else {
        return Err(DeploymentError::Contradiction {
            file: file.file.clone(),
            what: "the deployment has no models; write at least one [[models]]".to_owned(),
        });
    };
    let tokenizer = first.tokenizer()?;
    for other in others {
        first.shares_vocabulary(&tokenizer, other)?;
    }
    Ok(tokenizer)
}

fn on_cpu(model: Opened<'_>, files: DecoderFiles, index: ModelIndex) -> Result<Box<dyn Runner>, DeploymentError> {
    let entry = model.entry;
    let decoder = DecoderRunner::from_files(model.config, files, index, entry.cpu_options());
    let decoder = decoder.map_err(|source| broken(entry, source))?;
    let (bytes, held) = decoder.decoder().held();
    tracing::info!(
        model = entry.name,
        weights = held,
        bytes,
        threads = entry.threads,
        "model loaded on the CPU"
    );
    Ok(Box::new(decoder))
}
