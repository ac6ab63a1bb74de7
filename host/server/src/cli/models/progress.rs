//! How far a download is: a bar on a terminal, a line a file elsewhere.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokenrouter_host::hub::Progress;

const TEMPLATE: &str = "{msg}  {wide_bar}  {binary_bytes} of {binary_total_bytes}  {binary_bytes_per_sec}  {eta}";

/// A bar on standard error.
pub(super) struct Bar {
    bar: ProgressBar,
    is_terminal: bool,
}

impl Bar {
    pub(super) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        Self {
            bar,
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Takes the bar away, so that what follows is read.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Bar {
    fn start(&self, bytes: u64) {
        self.bar.reset();
        self.bar.set_length(bytes);
        self.bar.enable_steady_tick(Duration::from_millis(200));
    }

    #[expect(clippy::print_stderr, reason = "what is being done belongs on standard error")]
    fn file(&self, name: &str) {
        self.bar.set_message(name.to_owned());
        if !self.is_terminal {
            eprintln!("fetching {name}");
        }
    }

    fn at(&self, bytes: u64) {
        self.bar.set_position(bytes);
    }
}
