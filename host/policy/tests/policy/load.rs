//! Uploads that are not policies: each is refused for what is wrong with it, before anything of it runs.

use std::hash::{BuildHasher, Hasher, RandomState};

use tokenrouter_core::draw::{Purpose, bits};
use tokenrouter_policy::{CONTRACT_PACKAGE, CONTRACT_VERSION, Call, Digest, PolicyError, PolicyHost, PolicyLimits};

use crate::component::{Policy, assert_routes_well, configured, deployment, host, route};

fn refusal(bytes: &[u8]) -> PolicyError {
    host().load(bytes).err().expect("must be refused")
}

#[test]
fn a_policy_is_described_without_being_configured() {
    let bytes = Policy::new().bytes();
    let code = host().load(&bytes).expect("loads");
    let description = code.description();
    assert_eq!(
        (description.name.as_str(), description.version.as_str()),
        ("hand-written", "1.0.0")
    );
    let options: Vec<_> = description
        .options
        .iter()
        .map(|o| (o.name.as_str(), o.per_request))
        .collect();
    assert_eq!(options, [("limit", true), ("fixed", false)]);
    assert_eq!(code.digest(), Digest::of(&bytes));
    assert_eq!(code.contract_version(), CONTRACT_VERSION);
}

/// SHA-256 of "abc", from FIPS 180-4's examples.
#[test]
fn digests_are_sha256_in_hexadecimal() {
    let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(Digest::of(b"abc").to_string(), expected);
}

#[test]
fn the_contract_version_is_that_of_the_wit_file() {
    let wit = include_str!("../../../../wit/policy.wit");
    assert!(wit.contains(&format!("package {CONTRACT_PACKAGE}@{CONTRACT_VERSION};")));
}

#[test]
fn an_upload_above_the_size_limit_is_refused_unread() {
    let host = PolicyHost::new(PolicyLimits {
        component_bytes_max: 100,
        ..PolicyLimits::default()
    })
    .expect("starts");
    assert_eq!(
        host.load(&[0; 101]).err(),
        Some(PolicyError::TooLarge {
            bytes: 101,
            bytes_max: 100
        })
    );
}

#[test]
fn what_is_not_wasm_is_refused() {
    assert!(matches!(refusal(b""), PolicyError::NotWasm { start } if start.contains("empty")));
    assert!(matches!(refusal(b"#!/bin/sh"), PolicyError::NotWasm { start } if start.starts_with("23 21 2f")));
}

#[test]
fn a_core_module_is_told_from_a_component() {
    assert_eq!(
        refusal(&wat::parse_str("(module)").expect("parses")),
        PolicyError::CoreModule
    );
}

#[test]
fn a_component_that_ends_too_early_is_refused() {
    let bytes = Policy::new().bytes();
    // 8 bytes are a whole, empty component.
    for length in [9, 100, bytes.len() / 2, bytes.len() - 1] {
        let error = refusal(&bytes[..length]);
        assert!(matches!(error, PolicyError::Invalid { .. }), "{length} bytes: {error}");
    }
}

#[test]
fn a_component_for_something_else_is_refused() {
    assert_eq!(
        refusal(&wat::parse_str("(component)").expect("parses")),
        PolicyError::NotAPolicy
    );
}

#[test]
fn another_contract_version_is_named() {
    let error = refusal(&Policy::new().with("version", "0.2.0").bytes());
    assert_eq!(
        error,
        PolicyError::ContractVersion {
            found: "tokenrouter:policy@0.2.0".to_owned()
        }
    );
    assert!(
        error
            .to_string()
            .starts_with("expected tokenrouter:policy@0.1.0, found tokenrouter:policy@0.2.0")
    );
}

#[test]
fn imports_from_outside_the_contract_are_named() {
    let wasi = r#"(import "wasi:cli/environment@0.2.0" (instance))"#;
    let error = refusal(&Policy::new().with("imports", wasi).bytes());
    assert_eq!(
        error,
        PolicyError::ForeignImports {
            names: vec!["wasi:cli/environment@0.2.0".to_owned()]
        }
    );
    assert!(error.to_string().contains("no WASI"));
}

#[test]
fn missing_functions_are_named() {
    let error = refusal(&Policy::new().without("send").without("admit").bytes());
    assert_eq!(
        error,
        PolicyError::MissingExports {
            names: vec!["admit".to_owned(), "send".to_owned()]
        }
    );
}

#[test]
fn a_function_of_the_wrong_type_is_named() {
    let error = refusal(&Policy::new().exporting("send", "receive").bytes());
    let PolicyError::WrongType { reason } = &error else {
        panic!("{error}")
    };
    assert!(reason.contains("send"), "{reason}");
}

#[test]
fn memory_beyond_the_limit_is_refused_at_load() {
    let error = refusal(&Policy::new().with("memory pages", "257").bytes());
    assert!(error.to_string().contains("memory"), "{error}");
}

#[test]
fn faults_in_describe_and_init_are_refusals() {
    let host = host();
    for (part, call) in [("describe", Call::Describe), ("init", Call::Init)] {
        let error = configured(&host, &Policy::new().with(part, "(loop $forever (br $forever))")).err();
        assert!(
            matches!(error, Some(PolicyError::Deadline { call: found, .. }) if found == call),
            "{error:?}"
        );
        let error = configured(&host, &Policy::new().with(part, "(unreachable)")).err();
        assert!(
            matches!(error, Some(PolicyError::Trap { call: found, .. }) if found == call),
            "{error:?}"
        );
    }
    assert!(configured(&host, &Policy::new()).is_ok(), "the host is unharmed");
}

#[test]
fn an_endless_start_function_is_refused() {
    let start = "(func $start (loop $forever (br $forever))) (start $start)";
    let error = refusal(&Policy::new().with("declarations", start).bytes());
    assert!(
        matches!(
            error,
            PolicyError::Deadline {
                call: Call::Instantiate,
                ..
            }
        ),
        "{error}"
    );
}

/// Bytes changed at random: whatever comes of it, the host says so and goes on. What still loads is called.
#[test]
fn no_damaged_component_harms_the_host() {
    let seed = RandomState::new().build_hasher().finish();
    let host = host();
    let good = Policy::new().bytes();
    for round in 0..100 {
        let mut bytes = good.clone();
        for change in 0..1 + round % 3 {
            let random = bits(seed, round, Purpose::Policy(change as u32));
            let at = random as usize % bytes.len();
            bytes[at] = (random >> 32) as u8;
        }
        let generation = host.load(&bytes).and_then(|code| code.configure(&deployment(), &[]));
        if let Err(error) = generation.and_then(|generation| route(&mut generation.instance(), &[0, 1])) {
            assert!(!error.to_string().is_empty(), "seed {seed}, round {round}");
        }
    }
    assert_routes_well(&mut configured(&host, &Policy::new()).expect("configures").instance());
}

/// Nearly a million instructions take far more than a millisecond to compile.
#[test]
fn a_compilation_beyond_its_limit_is_given_up() {
    let work = "(i32.store (i32.const 8) (i32.mul (i32.load (i32.const 8)) (i32.load (i32.const 12))))";
    let bytes = Policy::new()
        .with("declarations", &format!("(func {})", work.repeat(150_000)))
        .bytes();
    let limits = PolicyLimits {
        compile_ms_max: 1,
        component_bytes_max: 64 << 20,
        ..PolicyLimits::default()
    };
    let host = PolicyHost::new(limits).expect("starts");
    assert_eq!(host.load(&bytes).err(), Some(PolicyError::CompileTime { ms_max: 1 }));
    assert_eq!(host.load(&bytes).err(), Some(PolicyError::CompilerBusy { ms_max: 1 }));
}

#[test]
fn limits_that_nothing_can_run_under_are_refused() {
    let defaults = PolicyLimits::default();
    for limits in [
        PolicyLimits {
            memory_bytes_max: 1000,
            ..defaults
        },
        PolicyLimits {
            memory_bytes_max: 0,
            ..defaults
        },
        PolicyLimits {
            memory_bytes_max: 8 << 30,
            ..defaults
        },
        PolicyLimits {
            stack_bytes_max: 0,
            ..defaults
        },
        PolicyLimits {
            instances_max: 0,
            ..defaults
        },
        PolicyLimits {
            call_ms_max: 0,
            ..defaults
        },
    ] {
        assert!(
            matches!(PolicyHost::new(limits).err(), Some(PolicyError::Limits { .. })),
            "{limits:?}"
        );
    }
}
