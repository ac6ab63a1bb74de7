//! Files that a test writes for the server to read.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A new file with this content. Its name ends with `name` and is used by no other test.
pub fn file(name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{number}-{name}", std::process::id()));
    std::fs::write(&path, content).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    path
}

/// A deployment `tiny` of the models small and large with further text. `policy` are the lines of `[policy]`, `rest` is
/// whatever follows.
pub fn deployment_file(policy: &str, rest: &str) -> PathBuf {
    let models =
        ["small", "large"].map(|name| format!("[[models]]\nname = \"{name}\"\nsource = \"embedded:tiny/{name}\"\n"));
    file(
        "deployment.toml",
        format!("name = \"tiny\"\n{}[policy]\n{policy}\n{rest}\n", models.concat()),
    )
}
