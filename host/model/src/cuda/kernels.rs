//! The kernels: PTX that is part of the binary, compiled by the driver when a device is opened.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;

use cudarc::driver::{CudaContext, result, sys};

use super::CudaError;

/// The modules of `kernels/dist`, made by `cargo xtask kernels`, and the kernels of each.
const MODULES: [(&str, &str, &[&str]); 6] = [
    (
        "norm",
        include_str!("../../kernels/dist/norm.ptx"),
        &["embed", "rms_norm", "turn_and_store"],
    ),
    (
        "gemm",
        include_str!("../../kernels/dist/gemm.ptx"),
        &[
            "gemm_8_1_store",
            "gemm_8_1_add",
            "gemm_8_2_swiglu",
            "gemm_8_2_store",
            "gemm_8_2_add",
            "gemm_16_1_store",
            "gemm_16_1_add",
            "gemm_16_2_swiglu",
            "gemm_16_4_store",
            "gemm_16_4_add",
            "gemm_16_4_swiglu",
            "gemm_32_1_store",
            "gemm_32_1_add",
            "gemm_32_2_swiglu",
            "gemm_32_4_store",
            "gemm_32_4_add",
            "gemm_32_4_swiglu",
            "gemm_64_1_store",
            "gemm_64_1_add",
            "gemm_64_2_swiglu",
            "gemm_64_4_store",
            "gemm_64_4_add",
            "gemm_64_4_swiglu",
        ],
    ),
    (
        "attention",
        include_str!("../../kernels/dist/attention.ptx"),
        &[
            "attend_32_2",
            "attend_32_8",
            "attend_64_2",
            "attend_64_8",
            "attend_128_2",
            "attend_128_8",
            "combine",
        ],
    ),
    (
        "logits",
        include_str!("../../kernels/dist/logits.ptx"),
        &["part_logits", "join_parts", "top_of_logits", "top_of_ranks"],
    ),
    (
        "heads",
        include_str!("../../kernels/dist/heads.ptx"),
        &["head_input", "head_logits", "head_bias", "head_norm", "head_scores"],
    ),
    (
        "random",
        include_str!("../../kernels/dist/random.ptx"),
        &["fill_random", "fill"],
    ),
];

/// A kernel that can be launched. Valid as long as its [`Kernels`].
#[derive(Clone, Copy)]
pub(super) struct Kernel(pub(super) sys::CUfunction);

// SAFETY: a handle of the driver, which may be used from any thread.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

/// All kernels, by name.
pub(super) struct Kernels {
    by_name: HashMap<&'static str, Kernel>,
    modules: Vec<sys::CUmodule>,
    context: Arc<CudaContext>,
}

// SAFETY: handles of the driver, which may be used from any thread.
unsafe impl Send for Kernels {}
// SAFETY: as above; nothing is changed after loading.
unsafe impl Sync for Kernels {}

impl Kernels {
    /// Hands all modules to the driver, which compiles them for the device (seconds the first time; it keeps a cache).
    pub(super) fn load(context: &Arc<CudaContext>) -> Result<Self, CudaError> {
        let ordinal = context.ordinal();
        let mut all = Self {
            by_name: HashMap::new(),
            modules: Vec::new(),
            context: context.clone(),
        };
        for (module, ptx, names) in MODULES {
            let failed = |what: String| move |error| CudaError::driver(ordinal, what, error);
            let text = CString::new(ptx).unwrap_or_default();
            // SAFETY: a text that ends with a zero, as the driver expects of PTX.
            let loaded = unsafe { result::module::load_data(text.as_ptr().cast()) };
            let loaded = loaded.map_err(failed(format!("the driver does not take the kernels of {module}.ptx")))?;
            all.modules.push(loaded);
            for name in names {
                // SAFETY: the module is loaded and stays so as long as `all`.
                let found = unsafe { result::module::get_function(loaded, CString::new(*name).unwrap_or_default()) };
                let kernel = found.map_err(failed(format!("{module}.ptx has no kernel {name}")))?;
                all.by_name.insert(name, Kernel(kernel));
            }
        }
        Ok(all)
    }

    /// The kernel of a name.
    ///
    /// # Panics
    /// When there is none: names are this crate's own, and a test asks for all of them.
    pub(super) fn get(&self, name: &str) -> Kernel {
        match self.by_name.get(name) {
            Some(kernel) => *kernel,
            None => panic!("no kernel is named {name}"),
        }
    }

    /// Lets a kernel use more shared memory than the 48 KiB that every kernel may.
    pub(super) fn allow_shared(&self, kernel: Kernel, bytes: u32) -> Result<(), CudaError> {
        let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the kernel belongs to a loaded module.
        unsafe { result::function::set_function_attribute(kernel.0, attribute, bytes as i32) }.map_err(|error| {
            let what = format!("a kernel cannot have {bytes} bytes of shared memory");
            CudaError::driver(self.context.ordinal(), what, error)
        })
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            for module in &self.modules {
                // SAFETY: loaded here, unloaded only here; whoever launches holds the device and so this.
                let _ = unsafe { result::module::unload(*module) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MODULES;

    /// Each name of the table is an entry of its module, and each entry is in the table.
    #[test]
    fn the_table_names_every_kernel_of_the_committed_modules() {
        for (module, ptx, names) in MODULES {
            let mut entries: Vec<&str> = ptx
                .lines()
                .filter_map(|line| line.trim_start_matches(".visible ").strip_prefix(".entry "))
                .map(|rest| rest.trim_end_matches('('))
                .collect();
            entries.sort_unstable();
            let mut names = names.to_vec();
            names.sort_unstable();
            assert_eq!(entries, names, "{module}");
        }
    }

    /// Ampere and later: the driver compiles for what it finds.
    #[test]
    fn the_committed_modules_run_from_capability_8_0_on() {
        for (module, ptx, _) in MODULES {
            assert!(ptx.contains(".target sm_80\n"), "{module}");
        }
    }
}
