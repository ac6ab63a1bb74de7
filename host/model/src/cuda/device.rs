//! A device: opened once, shared by the models that run on it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{CudaContext, result, sys};

use super::CudaError;
use super::kernels::Kernels;

/// An open device with the kernels loaded. Cloning shares it.
#[derive(Clone)]
pub struct Device {
    pub(super) context: Arc<CudaContext>,
    pub(super) kernels: Arc<Kernels>,
    /// Held while memory is allocated or freed, and while a graph is recorded.
    exclusive: Arc<Mutex<()>>,
    name: String,
    ordinal: usize,
}

/// The oldest compute capability with the kernels' instructions: bf16 tensor cores and asynchronous copies.
const CAPABILITY_MIN: (i32, i32) = (8, 0);

impl Device {
    /// Opens the device that the driver counts as `ordinal`.
    ///
    /// # Errors
    /// When there is no driver, no such device, it is too old, or the driver refuses the kernels.
    pub fn open(ordinal: usize) -> Result<Self, CudaError> {
        // SAFETY: loads a library by name and lets it go; the driver's initialisers have no requirements.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoDriver { ordinal });
        }
        let failed = |what: &'static str| move |error| CudaError::driver(ordinal, what, error);
        result::init().map_err(failed("the driver does not start"))?;
        let count = CudaContext::device_count().map_err(failed("devices cannot be counted"))?;
        let count = usize::try_from(count).unwrap_or(0);
        if ordinal >= count {
            return Err(CudaError::NoDevice { ordinal, count });
        }
        let context = CudaContext::new(ordinal).map_err(failed("the device cannot be opened"))?;
        let name = context.name().map_err(failed("its name cannot be read"))?;
        let capability = context
            .compute_capability()
            .map_err(failed("its capability cannot be read"))?;
        if capability < CAPABILITY_MIN {
            let (major, minor) = capability;
            return Err(CudaError::Capability {
                ordinal,
                name,
                major,
                minor,
            });
        }
        let kernels = Arc::new(Kernels::load(&context)?);
        Ok(Self {
            context,
            kernels,
            exclusive: Arc::default(),
            name,
            ordinal,
        })
    }

    /// The driver's name for it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number, from 0.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// Bytes of its memory that are free, and all of them.
    ///
    /// # Errors
    /// When the driver cannot say.
    pub fn memory_bytes(&self) -> Result<(u64, u64), CudaError> {
        let (free, total) = self
            .context
            .mem_get_info()
            .map_err(|error| self.failed("its memory cannot be read", error))?;
        Ok((free as u64, total as u64))
    }

    /// Bytes per second that its memory could move by its clock and width, if the driver tells them: the bound of every step.
    pub fn bandwidth(&self) -> Option<f64> {
        use sys::CUdevice_attribute_enum as Attribute;
        let get = |attribute| {
            self.context
                .attribute(attribute)
                .ok()
                .filter(|value| *value > 0)
                .map(f64::from)
        };
        let clock_khz = get(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?;
        let width_bits = get(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?;
        // Two transfers a clock.
        Some(2.0 * clock_khz * 1e3 * width_bits / 8.0)
    }

    /// Makes the calling thread use the device.
    pub(super) fn bind(&self) -> Result<(), CudaError> {
        self.context
            .bind_to_thread()
            .map_err(|error| self.failed("the device cannot be used", error))
    }

    /// Keeps memory from being allocated or freed while a graph is recorded, and the other way round.
    pub(super) fn exclusive(&self) -> MutexGuard<'_, ()> {
        self.exclusive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn failed(&self, what: impl Into<String>, error: result::DriverError) -> CudaError {
        CudaError::driver(self.ordinal, what, error)
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cuda:{} ({})", self.ordinal, self.name)
    }
}
