//! Deployments: which models, policy, launch rule and bounds a host serves. [`DeploymentFile`] is a deployment as it is
//! written, [`DeploymentFile::load`] makes an engine's parts of it.

mod admin;
mod device;
pub mod doctor;
mod error;
mod file;
mod heads;
mod launch;
mod load;
mod models;
mod opened;
mod plugin;
mod policy_limits;
mod request_options;
mod source;
mod template;
mod value;
mod whole;

#[cfg(test)]
mod tests;

pub use admin::AdminEntry;
pub use device::{CudaEntry, DeviceName, DeviceNameError};
pub use error::DeploymentError;
pub use file::{
    BUILT_IN, DeploymentFile, Fallback, HeadEntry, LaunchEntry, LimitsEntry, ModelEntry, OnFailure, OnFailureMode,
    PolicyEntry, ServerEntry, TlsEntry,
};
pub use heads::{LoadedHead, read_head};
pub use launch::{Launch, LaunchError, OptimisticSetting};
pub use load::{Loaded, LoadedModel, LoadedOption, LoadedPolicy, PolicyChecker, configure};
pub use plugin::{EMBEDDED_POLICIES, NO_PLUGIN, Plugin};
pub use policy_limits::PolicyLimitsEntry;
pub use request_options::{OptionRange, RequestOption, RequestOptions};
pub use source::ModelSource;
pub use value::{OptionValue, parse_setting};
pub use whole::Whole;
