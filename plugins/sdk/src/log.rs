//! The contract's only import.

pub use crate::bindings::Level;

/// Writes one line to the host's log. The host cuts lines at 512 bytes and limits how many it takes from one call.
/// Off Wasm, where there is no host, it goes to standard error, which `cargo test` shows for a failed test.
pub fn log(level: Level, message: &str) {
    #[cfg(target_arch = "wasm32")]
    crate::bindings::log(level, message);
    #[cfg(not(target_arch = "wasm32"))]
    #[expect(clippy::print_stderr, reason = "stands in for the host's log in native tests")]
    {
        eprintln!("{level:?}: {message}");
    }
}
