//! Policies that misbehave at a call. Each fault has its own error; the same instance answers the next call, and
//! another policy's instance never notices.

use tokenrouter_core::ModelIndex;
use tokenrouter_core::policy::{LeavingRow, Parcel, PolicyState};
use tokenrouter_policy::{Call, InstanceCounts, PolicyError, PolicyInstance};

use crate::component::{Policy, TRIGGER, admitting, assert_routes_well, configured, host, route};

const FOREVER: &str = "(loop $forever (br $forever))";

/// Runs `route` of a policy with this code into its fault, and checks that nothing else is harmed.
fn fault_of_route(code: &str) -> PolicyError {
    fault_of_policy(&Policy::new().hostile_route(code))
}

fn fault_of_policy(hostile: &Policy) -> PolicyError {
    let host = host();
    let mut policy = configured(&host, hostile).expect("configures").instance();
    let mut bystander = configured(&host, &Policy::new()).expect("configures").instance();
    assert_routes_well(&mut bystander);
    assert_routes_well(&mut policy);
    let error = route(&mut policy, &[TRIGGER]).expect_err("must fail");
    assert!(error.is_fault() && !error.is_request_error(), "{error}");
    assert_routes_well(&mut policy);
    assert_routes_well(&mut bystander);
    assert_eq!(
        policy.counts(),
        InstanceCounts {
            calls: 3,
            faults: 1,
            starts: 2
        }
    );
    assert_eq!(
        bystander.counts(),
        InstanceCounts {
            calls: 2,
            faults: 0,
            starts: 1
        }
    );
    error
}

#[test]
fn a_trap_is_named() {
    let error = fault_of_route("(unreachable)");
    assert!(
        matches!(&error, PolicyError::Trap { call: Call::Route, reason, said: None } if reason.contains("unreachable"))
    );
    let error = fault_of_route("(drop (i32.div_u (i32.const 1) (i32.const 0)))");
    assert!(
        matches!(&error, PolicyError::Trap { reason, .. } if reason.contains("divide by zero")),
        "{error}"
    );
    let error = fault_of_route("(drop (i32.load (i32.const -4)))");
    assert!(
        matches!(&error, PolicyError::Trap { reason, .. } if reason.contains("out of bounds")),
        "{error}"
    );
}

#[test]
fn an_endless_loop_meets_its_deadline() {
    let error = fault_of_route(FOREVER);
    assert_eq!(
        error,
        PolicyError::Deadline {
            call: Call::Route,
            ms_max: 300,
            said: None
        }
    );
}

#[test]
fn endless_logging_meets_its_deadline() {
    let error =
        fault_of_route("(loop $forever (call $log (i32.const 0) (i32.const 1024) (i32.const 8)) (br $forever))");
    assert!(matches!(error, PolicyError::Deadline { .. }), "{error}");
}

#[test]
fn a_memory_bomb_meets_the_memory_limit() {
    let grow = "(loop $more (drop (memory.grow (i32.const 16))) (br $more))";
    let error = fault_of_route(grow);
    let PolicyError::Memory {
        call, bytes, bytes_max, ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!((call, bytes_max), (Call::Route, 16 << 20));
    assert!(bytes > bytes_max);
    assert!(error.to_string().contains("memory limit"));
}

#[test]
fn a_table_bomb_meets_the_table_limit() {
    let table = "(table $table 1 funcref)";
    let grow = "(loop $more (drop (table.grow $table (ref.null func) (i32.const 1000))) (br $more))";
    let error = fault_of_policy(&Policy::new().with("declarations", table).hostile_route(grow));
    assert!(
        matches!(&error, PolicyError::Trap { reason, .. } if reason.contains("the limit is 10000")),
        "{error}"
    );
}

#[test]
fn endless_recursion_meets_the_stack_limit() {
    let recursion = "(func $deeper (param i32) (result i32)
                       (i32.add (call $deeper (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))";
    let policy = Policy::new()
        .with("declarations", recursion)
        .hostile_route("(drop (call $deeper (i32.const 0)))");
    let error = fault_of_policy(&policy);
    assert_eq!(
        error,
        PolicyError::Stack {
            call: Call::Route,
            bytes_max: 256 << 10,
            said: None
        }
    );
}

#[test]
fn the_last_error_line_of_a_call_explains_its_trap() {
    let log = |level: u32| format!("(call $log (i32.const {level}) (i32.const 1024) (i32.const 8))");
    let error = fault_of_route(&format!("{} (unreachable)", log(3)));
    assert!(
        matches!(&error, PolicyError::Trap { said: Some(line), .. } if line == "a number"),
        "{error}"
    );
    assert!(error.to_string().ends_with("it logged: a number"));
    // Lines of other levels, and of earlier calls, explain nothing.
    let error = fault_of_route(&format!("{} (unreachable)", log(2)));
    assert!(matches!(error, PolicyError::Trap { said: None, .. }));
    let always = format!(
        "(if (i32.eqz (i32.load (local.get $candidates))) (then {}))
         (if (i32.eq (i32.load (local.get $candidates)) (i32.const {TRIGGER})) (then (unreachable)))",
        log(3)
    );
    let error = fault_of_policy(&Policy::new().with("route", &always));
    assert!(matches!(error, PolicyError::Trap { said: None, .. }));
}

#[test]
fn a_long_log_line_is_cut_and_one_that_is_no_text_is_a_trap() {
    let error = fault_of_route("(call $log (i32.const 3) (i32.const 0) (i32.const 1000)) (unreachable)");
    assert!(
        matches!(&error, PolicyError::Trap { said: Some(line), .. } if line.len() == 512),
        "{error}"
    );
    let not_utf8 = "(i32.store (i32.const 512) (i32.const -1)) (call $log (i32.const 3) (i32.const 512) (i32.const 4))";
    assert!(matches!(
        fault_of_route(not_utf8),
        PolicyError::Trap { call: Call::Route, .. }
    ));
}

/// Shortens or lengthens a list of the answer; the fields are pairs of address and length at 4200.
#[test]
fn lists_of_the_wrong_length_are_refused() {
    let answer = |destinations: u32, words: u32| {
        format!(
            "(i32.store (i32.const 4200) (i32.const 8192)) (i32.store (i32.const 4204) (i32.const {destinations}))
             (i32.store (i32.const 4208) (i32.const 8192)) (i32.store (i32.const 4212) (i32.const {words}))
             (return (i32.const 4200))"
        )
    };
    for (destinations, words, named) in [
        (0, 1, "0 destinations, expected 1"),
        (2, 1, "2 destinations, expected 1"),
        (1, 0, "0 words of state, expected 1"),
        (1, 2, "2 words of state, expected 1"),
    ] {
        let error = fault_of_route(&answer(destinations, words));
        let PolicyError::Answer {
            call: Call::Route,
            reason,
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!(reason, named);
    }
}

#[test]
fn a_list_larger_than_an_answer_may_be_is_refused_before_it_is_copied() {
    let grow_and_return = "(drop (memory.grow (i32.const 100)))
        (i32.store (i32.const 4200) (i32.const 0)) (i32.store (i32.const 4204) (i32.const 1000000))
        (i32.store (i32.const 4208) (i32.const 0)) (i32.store (i32.const 4212) (i32.const 0))
        (return (i32.const 4200))";
    assert!(matches!(
        fault_of_route(grow_and_return),
        PolicyError::Trap { call: Call::Route, .. }
    ));
}

#[test]
fn a_list_outside_of_memory_is_refused() {
    let outside = "(i32.store (i32.const 4200) (i32.const -8)) (i32.store (i32.const 4204) (i32.const 1))
                   (return (i32.const 4200))";
    assert!(matches!(
        fault_of_route(outside),
        PolicyError::Trap { call: Call::Route, .. }
    ));
}

/// The hand-written policy sends a row to the model its candidate names.
#[test]
fn a_destination_that_does_not_exist_is_refused() {
    let error = fault_of_policy(&Policy::new());
    let reason = "model 66; the deployment has models 0 to 1".to_owned();
    assert_eq!(
        error,
        PolicyError::Answer {
            call: Call::Route,
            reason
        }
    );
}

fn instance(part: &'static str, code: &str) -> PolicyInstance {
    configured(&host(), &Policy::new().with(part, code))
        .expect("configures")
        .instance()
}

#[test]
fn admit_send_and_receive_are_held_to_the_same_rules() {
    let (small, large) = (ModelIndex(0), ModelIndex(1));
    let row = LeavingRow {
        candidate: 1,
        signals: &[0.5],
        state: &[1],
        text: "",
    };
    let parcel = Parcel {
        keep_candidate: true,
        state: PolicyState::new(&[1]),
    };
    let answer = |at: u32| {
        format!(
            "(i32.store (i32.const {at}) (i32.const 5)) (return (i32.const {}))",
            at - 8
        )
    };
    for (call, wrong_state) in [
        (
            Call::Admit,
            format!(
                "(i32.store (i32.const 4104) (i32.const 8192)) {}",
                answer(4108).replace("4100)", "4096)")
            ),
        ),
        (
            Call::Send,
            format!("(i32.store (i32.const 4304) (i32.const 8192)) {}", answer(4308)),
        ),
        (
            Call::Receive,
            format!(
                "(i32.store (i32.const 4400) (i32.const 8192)) {}",
                answer(4404).replace("4396)", "4400)")
            ),
        ),
    ] {
        for code in [FOREVER, "(unreachable)", &wrong_state] {
            let mut policy = instance(call.as_str(), code);
            let error = match call {
                Call::Admit => policy.admit(&admitting(&[1]), &[]).err(),
                Call::Send => policy.send(small, large, row).err(),
                _ => policy.receive(large, small, &parcel).err(),
            }
            .expect("must fail");
            match &error {
                PolicyError::Deadline { call: found, .. } if code == FOREVER => assert_eq!(*found, call),
                PolicyError::Trap { call: found, .. } if code == "(unreachable)" => assert_eq!(*found, call),
                PolicyError::Answer { call: found, reason } if code == wrong_state => {
                    assert_eq!((*found, reason.as_str()), (call, "5 words of state, expected 1"));
                }
                _ => panic!("{call}: {error}"),
            }
            assert!(error.is_fault());
            assert_routes_well(&mut policy);
        }
    }
}

#[test]
fn admission_to_a_model_that_does_not_exist_is_refused() {
    let code = "(i32.store8 (i32.const 4096) (i32.const 0)) (i32.store (i32.const 4100) (i32.const 2))
                (return (i32.const 4096))";
    let error = instance("admit", code)
        .admit(&admitting(&[1]), &[])
        .expect_err("refused");
    assert!(
        matches!(error, PolicyError::Answer { call: Call::Admit, .. }),
        "{error}"
    );
}
