//! The GPU kernels: CUDA C++ of `host/model/kernels` to PTX of `host/model/kernels/dist`.
//!
//! The compiler is NVRTC, a library that needs neither a GPU nor a toolkit. Its release decides the version of the PTX, and with that
//! the oldest driver that takes it: 12.4 writes PTX 8.4, for drivers from 550 on.

mod lock;
mod nvrtc;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use lock::Lock;
use nvrtc::Nvrtc;

/// The kernels' files, without their extension.
const NAMES: [&str; 6] = ["attention", "gemm", "heads", "logits", "norm", "random"];
/// What all of them include.
const HEADER: &str = "device.cuh";
/// Ampere: every later device runs it, compiled by its driver.
const OPTIONS: [&str; 2] = ["--gpu-architecture=compute_80", "--std=c++17"];

/// Compiles all kernels and writes PTX and lock. `library` is the path of NVRTC, if it was given.
pub fn build(root: &Path, library: Option<&Path>) -> Result<String> {
    let nvrtc = open(root, library)?;
    let mut lines = vec![format!("NVRTC {}", nvrtc.version())];
    for name in NAMES {
        let ptx = compile(root, &nvrtc, name)?;
        let path = ptx_path(root, name);
        fs::write(&path, &ptx).with_context(|| format!("cannot write {}", path.display()))?;
        lines.push(format!("{}: {} bytes", path.display(), ptx.len()));
    }
    Lock::of(root, nvrtc.version())?.write(root)?;
    Ok(lines.join("\n"))
}

/// Compares sources, PTX and lock; with `compile`, also compiles the sources, and where NVRTC is of the lock's release, compares
/// what comes out.
pub fn check(root: &Path, compile_too: bool, library: Option<&Path>) -> Result<String> {
    let lock = Lock::check(root)?;
    let mut line = format!("host/model/kernels/dist is up to date: {} kernel files", NAMES.len());
    if compile_too {
        let nvrtc = open(root, library)?;
        for name in NAMES {
            let ptx = compile(root, &nvrtc, name)?;
            let committed = fs::read(ptx_path(root, name))?;
            if nvrtc.version() == lock.nvrtc() && ptx != committed {
                bail!("{name}.cu compiles to another PTX than the committed one; run `cargo xtask kernels`");
            }
        }
        line = format!("{line}; all compile with NVRTC {}", nvrtc.version());
    }
    Ok(line)
}

fn compile(root: &Path, nvrtc: &Nvrtc, name: &str) -> Result<Vec<u8>> {
    let read = |file: &str| {
        let path = folder(root).join(file);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let file = format!("{name}.cu");
    nvrtc.compile(&file, &read(&file)?, (HEADER, &read(HEADER)?), &OPTIONS)
}

/// The library: as given, or as pip unpacks it under target/, or where the system has it.
fn open(root: &Path, given: Option<&Path>) -> Result<Nvrtc> {
    if let Some(path) = given {
        return Nvrtc::open(path);
    }
    let unpacked = root.join("target/nvrtc/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
    for candidate in [unpacked.as_path(), Path::new("libnvrtc.so.12")] {
        if let Ok(nvrtc) = Nvrtc::open(candidate) {
            return Ok(nvrtc);
        }
    }
    bail!(
        "NVRTC was not found: neither {} nor libnvrtc.so.12 where the system looks for libraries. Get it with\n  \
         python3 -m pip install --no-deps --target target/nvrtc nvidia-cuda-nvrtc-cu12==12.4.127\nor name it with --nvrtc FILE",
        unpacked.display()
    )
}

fn folder(root: &Path) -> PathBuf {
    root.join("host/model/kernels")
}

fn ptx_path(root: &Path, name: &str) -> PathBuf {
    folder(root).join(format!("dist/{name}.ptx"))
}
