//! What a policy logs reaches the host's log, within bounds.

use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::component::{Policy, assert_routes_well, configured, host};

/// Keeps level and message of every event with the target `policy`.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<(Level, String)>>>);

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "policy"
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        assert_eq!(fields.policy, "hand-written", "every line says whose it is");
        self.0
            .lock()
            .expect("not poisoned")
            .push((*event.metadata().level(), fields.message));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Fields {
    policy: String,
    message: String,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "policy" {
            value.clone_into(&mut self.policy);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        }
    }
}

/// The lines of two calls of a policy with this code in `route`.
fn lines(code: &str) -> Vec<(Level, String)> {
    let mut policy = configured(&host(), &Policy::new().with("route", code))
        .expect("configures")
        .instance();
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), || {
        assert_routes_well(&mut policy);
        assert_routes_well(&mut policy);
    });
    lines.0.lock().expect("not poisoned").clone()
}

#[test]
fn lines_keep_their_level_and_text() {
    for (number, level) in [(0, Level::DEBUG), (1, Level::INFO), (2, Level::WARN), (3, Level::ERROR)] {
        let log = format!("(call $log (i32.const {number}) (i32.const 1024) (i32.const 8))");
        assert_eq!(lines(&log), vec![(level, "a number".to_owned()); 2]);
    }
}

#[test]
fn each_call_has_a_limit_of_lines() {
    let log = "(call $log (i32.const 1) (i32.const 1024) (i32.const 8))".repeat(100);
    assert_eq!(lines(&log).len(), 2 * 16);
}

/// 511 bytes, then one character of two bytes: the cut falls before it.
#[test]
fn long_lines_are_cut_between_characters() {
    let log = "(memory.fill (i32.const 8192) (i32.const 97) (i32.const 600))
               (i32.store16 (i32.const 8703) (i32.const 0xa9c3))
               (call $log (i32.const 1) (i32.const 8192) (i32.const 600))";
    for (_, line) in lines(log) {
        assert_eq!(line, "a".repeat(511));
    }
}
