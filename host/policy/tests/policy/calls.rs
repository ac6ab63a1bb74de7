//! Good calls: what goes in, what comes out, and what callers may not ask.

use tokenrouter_core::ModelIndex;
use tokenrouter_core::policy::{Decisions, LeavingRow, Parcel, PolicyState, RouteBatch};
use tokenrouter_policy::{InstanceCounts, PolicyError, PolicyInstance, Setting, Value};

use crate::component::{Policy, admitting, assert_routes_well, batch, configured, host};

const SMALL: ModelIndex = ModelIndex(0);
const LARGE: ModelIndex = ModelIndex(1);

fn instance() -> PolicyInstance {
    configured(&host(), &Policy::new()).expect("configures").instance()
}

#[test]
fn every_function_carries_its_arguments_and_its_answer() {
    let mut policy = instance();
    let admission = policy.admit(&admitting(&[1, 2, 3]), &[]).expect("admits");
    assert_eq!((admission.model, admission.state), (SMALL, PolicyState::new(&[7])));
    assert_routes_well(&mut policy);
    for (candidate, keep_candidate) in [(4, true), (5, false)] {
        let row = LeavingRow {
            candidate,
            signals: &[0.5],
            state: &[u64::MAX],
            text: "",
        };
        let parcel = policy.send(SMALL, LARGE, row).expect("sends");
        assert_eq!(
            parcel,
            Parcel {
                keep_candidate,
                state: PolicyState::new(&[u64::MAX])
            }
        );
        assert_eq!(policy.receive(LARGE, SMALL, &parcel).expect("receives"), parcel.state);
    }
    assert_eq!(
        policy.counts(),
        InstanceCounts {
            calls: 6,
            faults: 0,
            starts: 1
        }
    );
}

/// One instance a thread; generations and code are shared.
#[test]
fn instances_can_move_and_generations_be_shared_between_threads() {
    let generation = configured(&host(), &Policy::new()).expect("configures");
    let mut moved = generation.instance();
    assert_routes_well(&mut moved);
    std::thread::scope(|scope| {
        scope.spawn(|| assert_routes_well(&mut generation.instance()));
        scope.spawn(move || assert_routes_well(&mut moved));
    });
}

#[test]
fn an_instance_is_made_at_its_first_call() {
    let mut policy = instance();
    assert_eq!(policy.counts().starts, 0);
    policy
        .route(SMALL, &RouteBatch::default(), &mut Decisions::default())
        .expect("nothing to route");
    assert_eq!(policy.counts().starts, 0, "an empty batch needs no policy");
}

#[test]
fn buffers_are_overwritten() {
    let mut policy = instance();
    let mut decisions = Decisions {
        destinations: vec![LARGE; 9],
        state: vec![3; 9],
    };
    policy.route(SMALL, &batch(&[1]), &mut decisions).expect("routes");
    assert_eq!(
        decisions,
        Decisions {
            destinations: vec![LARGE],
            state: vec![0]
        }
    );
}

#[test]
fn a_request_sets_only_options_that_are_open_to_it() {
    let mut policy = instance();
    let mut admit = |name: &str| {
        let option = Setting {
            name: name.to_owned(),
            value: Value::Texts(vec!["a".to_owned()]),
        };
        policy.admit(&admitting(&[1]), &[option]).err()
    };
    let allowed = vec!["limit".to_owned()];
    let closed = PolicyError::OptionNotPerRequest {
        name: "fixed".to_owned(),
        allowed: allowed.clone(),
    };
    assert!(closed.is_request_error() && !closed.is_fault());
    assert_eq!(admit("fixed"), Some(closed));
    assert_eq!(
        admit("nothing"),
        Some(PolicyError::OptionUnknown {
            name: "nothing".to_owned(),
            allowed
        })
    );
    assert_eq!(admit("limit"), None);
}

#[test]
fn a_refused_request_is_no_fault() {
    let refuse = "(if (i32.gt_u (local.get $tokens) (i32.const 2)) (then
                    (i32.store8 (i32.const 4096) (i32.const 1))
                    (i32.store (i32.const 4100) (i32.const 1024))
                    (i32.store (i32.const 4104) (i32.const 8))
                    (return (i32.const 4096))))";
    let mut policy = configured(&host(), &Policy::new().with("admit", refuse))
        .expect("configures")
        .instance();
    let error = policy.admit(&admitting(&[1, 2, 3]), &[]).expect_err("refused");
    assert_eq!(
        error,
        PolicyError::Refused {
            text: "a number".to_owned()
        }
    );
    assert!(error.is_request_error() && !error.is_fault());
    policy.admit(&admitting(&[1, 2]), &[]).expect("admits");
    assert_eq!(
        policy.counts(),
        InstanceCounts {
            calls: 2,
            faults: 0,
            starts: 1
        }
    );
}

#[test]
fn columns_that_do_not_fit_the_plan_never_reach_the_policy() {
    let mut policy = instance();
    let good = batch(&[0, 1]);
    for wrong in [
        RouteBatch {
            signals: vec![0.0; 3],
            ..good.clone()
        },
        RouteBatch {
            state: vec![0; 1],
            ..good.clone()
        },
        RouteBatch {
            texts: ["", ""].iter().collect(),
            ..good.clone()
        },
    ] {
        let error = policy
            .route(SMALL, &wrong, &mut Decisions::default())
            .expect_err("refused");
        assert!(matches!(error, PolicyError::Arguments { .. }), "{error}");
    }
    let error = policy
        .route(ModelIndex(2), &good, &mut Decisions::default())
        .expect_err("refused");
    assert!(matches!(error, PolicyError::Arguments { .. }), "{error}");
    assert_eq!(policy.counts().calls, 0);
}

#[test]
fn code_and_instances_outlive_their_host() {
    let host = host();
    let forever = "(loop $forever (br $forever))";
    let generation = configured(&host, &Policy::new().hostile_route(forever)).expect("configures");
    drop(host);
    let mut policy = generation.instance();
    assert_routes_well(&mut policy);
    // The clock of the deadlines still runs.
    let error = crate::component::route(&mut policy, &[crate::component::TRIGGER]).expect_err("ends");
    assert!(matches!(error, PolicyError::Deadline { .. }), "{error}");
}

#[test]
fn instances_beyond_the_limit_are_refused_until_one_goes() {
    let host = host();
    let generation = configured(&host, &Policy::new()).expect("configures");
    let mut instances: Vec<_> = (0..8).map(|_| generation.instance()).collect();
    instances.iter_mut().for_each(assert_routes_well);
    let mut ninth = generation.instance();
    let error = crate::component::route(&mut ninth, &[0]).expect_err("the pool is full");
    assert_eq!(error, PolicyError::InstancesExhausted { instances_max: 8 });
    instances.pop();
    assert_routes_well(&mut ninth);
}
