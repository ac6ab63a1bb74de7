//! `tokenrouter-host gpu-check`: whether a GPU computes what the CPU does, and how fast.
//!
//! It needs no file: models with meaning are those of the binary, others are random and made on the spot, the large ones on
//! the device itself.

mod args;
mod heads;
mod models;
mod probe;
mod products;
mod report;
mod serving;
mod steps;

use anyhow::Context as _;
use tokenrouter_host::deployment::DeviceName;
use tokenrouter_model::cuda::Device;

use super::{Failure, output};
use args::Part;
pub(super) use args::{GPU_CHECK_EXAMPLES, GpuCheckArgs};
use report::Report;

pub(super) fn run(args: &GpuCheckArgs) -> Result<(), Failure> {
    let DeviceName::Cuda(ordinal) = args.device else {
        return Err(Failure::asked(anyhow::anyhow!(
            "--device is cpu; gpu-check is about GPUs: write cuda:0"
        )));
    };
    if let Some(path) = &args.json {
        let written = output::can_write(path).with_context(|| format!("--json {}", path.display()));
        written.map_err(Failure::Asked)?;
    }
    let device = Device::open(ordinal).map_err(Failure::asked)?;
    let mut report = Report::new(&device)?;
    for part in args.parts() {
        let done = match part {
            Part::Products => products::run(&device, &mut report),
            Part::Models => models::run(&device, &mut report),
            Part::Heads => heads::run(&device, &mut report),
            Part::Steps => steps::run(&device, &mut report),
            Part::Serving => serving::run(&device, &mut report),
        };
        // One part that cannot go on must not keep the others from being seen.
        if let Err(error) = done {
            report.failed(part.name(), &format!("{error:#}"))?;
        }
    }
    report.end(args.json.as_deref())
}
