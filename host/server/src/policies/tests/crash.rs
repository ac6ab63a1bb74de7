//! The process ends between any two operations on the file system, as by `kill -9`: what a restart finds is the set before or
//! the new one, whole.

use std::path::Path;
use std::process::Command;

use super::store::{open, set};
use crate::policies::Store;

const FOLDER: &str = "TOKENROUTER_TEST_CRASH_FOLDER";
const STEPS: &str = "TOKENROUTER_TEST_CRASH_STEPS";

/// Saves the sets 2 and 3 and aborts at a given step. Does nothing unless the test below runs it as a process of its own.
#[test]
fn child_that_saves_until_it_is_ended() {
    let (Ok(folder), Ok(steps)) = (std::env::var(FOLDER), std::env::var(STEPS)) else {
        return;
    };
    let mut left: u32 = steps.parse().expect("a number");
    let before_step = Box::new(move |_: &str| {
        if left == 0 {
            std::process::abort();
        }
        left -= 1;
    });
    let (mut store, _) = Store::open_with(Path::new(&folder), before_step).unwrap();
    for id in 2..=3 {
        let (set, components) = set(id);
        store.save(&set, &components).unwrap();
    }
}

#[test]
fn an_end_between_any_two_writes_leaves_the_set_before_or_the_new_one() {
    let mut seen = Vec::new();
    for steps in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, _) = open(folder.path()).unwrap();
        let (first, components) = set(1);
        store.save(&first, &components).unwrap();
        drop(store);
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "policies::tests::crash::child_that_saves_until_it_is_ended"])
            .env(FOLDER, folder.path())
            .env(STEPS, steps.to_string())
            .output()
            .unwrap();
        let (mut store, restored) = open(folder.path()).unwrap();
        let (found, _) = restored
            .found
            .unwrap_or_else(|| panic!("nothing is left after {steps} steps"));
        let id = found.default_generation().unwrap();
        assert_eq!(found, set(id).0, "{steps} steps");
        assert!(restored.refused.is_empty(), "{steps} steps: {:?}", restored.refused);
        seen.push(id);
        // And it goes on from there.
        let (next, components) = set(9);
        store.save(&next, &components).unwrap();
        drop(store);
        assert_eq!(open(folder.path()).unwrap().1.found, Some(set(9)), "{steps} steps");
        if child.status.success() {
            break;
        }
    }
    assert!(seen.is_sorted(), "{seen:?}");
    seen.dedup();
    assert_eq!(seen, [1, 2, 3], "all three were met");
}
