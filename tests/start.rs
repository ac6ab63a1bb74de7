//! What cannot be served: the command ends with exit code 2 and says on standard error what is wrong, where, and what would
//! be right.

use std::path::Path;

use crate::common::component::Policy;
use crate::common::{Server, deployment_file, file, run_to_end};

/// Runs the binary and checks its exit code and that its message is one error with all parts. The address is taken before
/// anything is loaded, so it must be a free one.
fn refuses(code: i32, args: &[&str], parts: &[&str]) {
    let free = ["--listen", "127.0.0.1:0"];
    let with_address = if args.contains(&"--listen") || !args[0].starts_with('-') {
        args.to_vec()
    } else {
        [args, &free].concat()
    };
    let (found, stderr) = run_to_end(&with_address);
    assert_eq!(found, code, "{args:?}: {stderr}");
    let message = stderr.lines().find(|line| line.starts_with("error: "));
    let message = message.unwrap_or_else(|| panic!("{args:?}: no line begins with \"error: \" in {stderr:?}"));
    for part in parts {
        assert!(message.contains(part), "{args:?}: {part:?} is not in {message:?}");
    }
    assert!(!stderr.contains("panicked"), "{args:?}: {stderr}");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are UTF-8")
}

#[test]
fn options_of_the_policy() {
    refuses(
        2,
        &["--plugin-config", "treshold=0.1"],
        &[
            "policy \"r-stitch\"",
            "unknown option `treshold`",
            "the policy has threshold, signal, unit",
        ],
    );
    refuses(
        2,
        &["--plugin-config", "threshold=lots"],
        &["policy \"r-stitch\"", "\"threshold\"", "number"],
    );
    refuses(
        2,
        &["--plugin-config", "threshold=-1"],
        &["policy \"r-stitch\"", "\"threshold\" is -1"],
    );
    refuses(
        2,
        &["--plugin", "random", "--plugin-config", "share=2"],
        &["\"share\" is 2", "between 0 and 1"],
    );
    refuses(
        2,
        &["--plugin", "none", "--plugin-config", "share=1"],
        &["(share)", "no policy", "name a plugin"],
    );
}

#[test]
fn files_that_are_no_policy() {
    refuses(
        2,
        &["--plugin", "/nowhere/policy.wasm"],
        &[
            "there is no policy \"/nowhere/policy.wasm\"",
            "the built-in ones are citer, co-llm, glimprouter, me, r-stitch, r2r, random, request-level",
            "\"none\"",
        ],
    );
    let not_wasm = file("policy.wasm", "#!/bin/sh\n");
    refuses(
        2,
        &["--plugin", text(&not_wasm)],
        &[text(&not_wasm), "not a WebAssembly binary", "00 61 73 6d 0d 00 01 00"],
    );
    let empty = file("policy.wasm", "");
    refuses(
        2,
        &["--plugin", text(&empty)],
        &["not a WebAssembly binary: it starts with nothing"],
    );
    let module = file("policy.wasm", wat::parse_str("(module)").expect("a module"));
    refuses(
        2,
        &["--plugin", text(&module)],
        &["a core WebAssembly module, not a component", "wasm-tools component new"],
    );
    let cut = Policy::new().bytes();
    let cut = file("policy.wasm", &cut[..cut.len() / 2]);
    refuses(2, &["--plugin", text(&cut)], &[text(&cut), "not valid"]);
}

#[test]
fn policies_that_do_not_fit_the_contract() {
    let version = file("policy.wasm", Policy::new().with("version", "9.1.0").bytes());
    refuses(
        2,
        &["--plugin", text(&version)],
        &["expected tokenrouter:policy@0.1.0", "found tokenrouter:policy", "9.1.0"],
    );
    let missing = file("policy.wasm", Policy::new().without("route").bytes());
    refuses(
        2,
        &["--plugin", text(&missing)],
        &["does not export route", "a policy exports", "receive"],
    );
    let looping = file(
        "policy.wasm",
        Policy::new().with("init", "(loop $forever (br $forever))").bytes(),
    );
    refuses(
        2,
        &["--plugin", text(&looping)],
        &["the policy's `init` took more than 500 ms"],
    );
    let trapping = file("policy.wasm", Policy::new().with("describe", "(unreachable)").bytes());
    refuses(
        2,
        &["--plugin", text(&trapping)],
        &["the policy's `describe` trapped", "unreachable"],
    );
}

#[test]
fn deployment_files() {
    let policy = "plugin = \"r-stitch\"";
    for (policy, rest, parts) in [
        (
            policy,
            "[limits]\nkv_token = 5",
            &["deployment.toml:11:1: unknown field `kv_token`", "`kv_tokens`"][..],
        ),
        (
            policy,
            "[launch]\nrule = \"soon\"",
            &[
                "deployment.toml:11:8: ",
                "\"soon\" is not a launch rule",
                "eager, threshold",
            ],
        ),
        (
            policy,
            "[limits]\nrows_max = 0",
            &["deployment.toml:11:12: 0 is out of range: it must be 1 to 65536"],
        ),
        ("plugin = 7", "", &["deployment.toml:9:10: ", "expected a string"]),
        (
            "plugin = \"r-stitch\"\non_failure = { fallback = \"huge\" }",
            "",
            &["falls back to model \"huge\"; the models are small, large"],
        ),
        (
            "plugin = \"./none.wasm\"",
            "",
            &["there is no policy \"./none.wasm\"", "none.wasm,"],
        ),
        (
            policy,
            "[[models]]\nname = \"x\"\nsource = \"weights\"",
            &["model \"x\": there is no folder", "weights"],
        ),
    ] {
        let file = deployment_file(policy, rest);
        refuses(2, &["--config", text(&file)], parts);
    }
    refuses(
        2,
        &["--config", "/nowhere.toml"],
        &["cannot read the deployment file /nowhere.toml"],
    );
}

#[test]
fn addresses() {
    let server = Server::start(&[]);
    let address = server.url.strip_prefix("http://").expect("a URL");
    refuses(
        1,
        &["--listen", address],
        &[address, "is in use by another program", "--listen HOST:PORT"],
    );
    refuses(
        2,
        &["--listen", "nonsense"],
        &["cannot listen at nonsense", "HOST:PORT, as in 127.0.0.1:30000"],
    );
}
