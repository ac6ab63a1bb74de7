use crate::policies::{FORMER_MAX, PolicySet, Record, SwapError, Trial, Withdrawn};

fn record(id: u32, name: &str) -> Record {
    Record {
        id,
        name: name.to_owned(),
        digest: format!("{id:064x}"),
        options: Default::default(),
        signed_by: None,
        created_s: 0,
        withdrawn: None,
    }
}

/// Generations 1, 2, … of these names, all but the last few activated one after the other.
fn set(names: &[&str]) -> PolicySet {
    let mut set = PolicySet::default();
    for (name, id) in names.iter().zip(1..) {
        set.add(record(id, name)).unwrap();
        set.activate(id, true);
        assert!(set.is_consistent(), "{set:?}");
    }
    set
}

#[test]
fn a_new_default_ends_trials_and_the_old_name_still_answers() {
    let mut set = set(&["a"]);
    set.add(record(2, "b")).unwrap();
    set.canary = Some(Trial {
        generation: 2,
        share: 0.5,
    });
    set.shadow = Some(Trial {
        generation: 2,
        share: 1.0,
    });
    set.activate(2, true);
    assert_eq!((set.canary, set.shadow), (None, None));
    assert_eq!((set.default.as_deref(), &set.former[..]), (Some("b"), &[1][..]));
    assert_eq!(set.active["a"], 1);
}

#[test]
fn rolling_back_goes_through_the_former_defaults_whatever_their_names() {
    let mut set = set(&["a", "a", "b"]);
    assert_eq!(set.rollback_target("b", None).unwrap(), 2);
    assert_eq!(set.rollback_target("b", Some(1)).unwrap(), 1);
    assert!(
        matches!(set.rollback_target("b", Some(9)), Err(SwapError::NoSuchGeneration { known, .. }) if known == [1, 2, 3])
    );
    // "a" is not the default: it goes back to its own.
    assert_eq!(set.rollback_target("a", None).unwrap(), 1);
    assert!(
        matches!(set.rollback_target("a", Some(3)), Err(SwapError::NoSuchGeneration { known, .. }) if known == [1, 2])
    );
    set.activate(2, true);
    assert_eq!((set.default_generation(), set.former.last()), (Some(2), Some(&3)));
}

#[test]
fn only_the_last_defaults_are_kept() {
    let names: Vec<&str> = std::iter::repeat_n("a", 20).collect();
    let set = set(&names);
    assert_eq!(set.former.len(), FORMER_MAX);
    assert_eq!(set.generations.len(), FORMER_MAX + 1);
    assert_eq!((set.former[0], set.default_generation()), (12, Some(20)));
}

#[test]
fn a_generation_that_fails_makes_room_for_the_last_that_did_not() {
    let mut set = set(&["a", "a", "a"]);
    assert_eq!(set.withdraw(3, "traps"), Some(Withdrawn::Replaced(2)));
    assert_eq!(set.default_generation(), Some(2));
    assert_eq!(set.withdraw(2, "traps"), Some(Withdrawn::Replaced(1)));
    assert_eq!(set.withdraw(1, "traps"), Some(Withdrawn::NothingBefore));
    assert_eq!(
        set.default_generation(),
        Some(1),
        "better a failing policy with a failure mode than none"
    );
    assert!(set.is_consistent());
}

#[test]
fn a_failing_default_of_another_name_leaves_its_name() {
    let mut set = set(&["a", "b"]);
    assert_eq!(set.withdraw(2, "traps"), Some(Withdrawn::Replaced(1)));
    assert_eq!((set.default.as_deref(), set.active.get("b")), (Some("a"), None));
    assert!(set.is_consistent());
}

#[test]
fn a_failing_trial_ends() {
    let mut set = set(&["a"]);
    set.add(record(2, "b")).unwrap();
    set.shadow = Some(Trial {
        generation: 2,
        share: 1.0,
    });
    assert_eq!(set.withdraw(2, "traps"), Some(Withdrawn::TrialEnded));
    assert_eq!((set.shadow, set.default_generation()), (None, Some(1)));
}

#[test]
fn what_is_in_use_cannot_be_deleted() {
    let mut set = set(&["a"]);
    for id in 2..4 {
        set.add(record(id, if id == 2 { "b" } else { "c" })).unwrap();
    }
    set.canary = Some(Trial {
        generation: 2,
        share: 0.1,
    });
    set.shadow = Some(Trial {
        generation: 3,
        share: 0.1,
    });
    for (name, expected) in [("a", "the default"), ("b", "the canary"), ("c", "the shadow")] {
        assert!(
            matches!(set.delete(name), Err(SwapError::InUse { role, .. }) if role == expected),
            "{name}"
        );
    }
    (set.canary, set.shadow) = (None, None);
    set.delete("b").unwrap();
    assert!(matches!(set.delete("b"), Err(SwapError::NoSuchPolicy { known, .. }) if known == ["a", "c"]));
    assert!(set.is_consistent());
}

#[test]
fn names_are_parts_of_what_clients_write() {
    let mut set = PolicySet::default();
    let long = "a".repeat(65);
    for name in ["", "a@b", "a/b", "a b", "é", "../etc", &long] {
        assert!(
            matches!(set.add(record(1, name)), Err(SwapError::Name { .. })),
            "{name:?}"
        );
    }
}
