//! What can go wrong with a device.

use cudarc::driver::DriverError;

/// An error of a device or of its driver. Messages name the device, what is wrong and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum CudaError {
    /// The driver's library is not there.
    #[error(
        "cuda:{ordinal}: there is no NVIDIA driver: looked for libcuda.so and libcuda.so.1 where the system looks for \
         libraries. Install the NVIDIA driver (in a container: make it visible there), or set device = \"cpu\""
    )]
    NoDriver {
        /// The device asked for.
        ordinal: usize,
    },
    /// The driver is there, the device is not.
    #[error("cuda:{ordinal}: the driver knows {count} devices, numbered from 0")]
    NoDevice {
        /// The device asked for.
        ordinal: usize,
        /// How many there are.
        count: usize,
    },
    /// The device is too old for the kernels.
    #[error("cuda:{ordinal} ({name}) has compute capability {major}.{minor}; 8.0 or later is needed")]
    Capability {
        /// The device.
        ordinal: usize,
        /// Its name.
        name: String,
        /// Its major capability.
        major: i32,
        /// Its minor capability.
        minor: i32,
    },
    /// The driver refused something.
    #[error("cuda:{ordinal}: {what}: {code} ({text})")]
    Driver {
        /// The device.
        ordinal: usize,
        /// What was being done.
        what: String,
        /// The driver's name for the error.
        code: String,
        /// The driver's description of it.
        text: String,
    },
    /// The model has sizes that the kernels cannot take.
    #[error("the model cannot run on a GPU here: {0}; device = \"cpu\" runs it")]
    Sizes(String),
    /// Memory is short.
    #[error("{0}")]
    Budget(#[from] super::budget::BudgetError),
}

impl CudaError {
    /// A driver's error. Its texts are the driver's own.
    pub(super) fn driver(ordinal: usize, what: impl Into<String>, error: DriverError) -> Self {
        let text = |found: Result<&std::ffi::CStr, DriverError>| match found {
            Ok(text) => text.to_string_lossy().into_owned(),
            Err(_) => "no description".to_owned(),
        };
        Self::Driver {
            ordinal,
            what: what.into(),
            code: text(error.error_name()),
            text: text(error.error_string()),
        }
    }
}
