//! `tokenrouter-host admin`: the admin API from the command line.

mod args;
mod client;
mod print;

use std::path::Path;

use anyhow::Context as _;
use serde_json::{Map, Value, json};
use tokenrouter_host::deployment::OptionValue;
use tokenrouter_policy::{Digest, Setting};

use super::{Failure, output};
pub(super) use args::{ADMIN_EXAMPLES, AdminArgs};
use args::{AdminCommand, PolicyCommand, PutArgs};
use client::{Call, Client};

/// Runs one command against a running host.
pub(super) fn run(args: &AdminArgs) -> Result<(), Failure> {
    let client = Client::new(&args.url, args.key_file.as_deref()).map_err(Failure::Asked)?;
    let call = match &args.command {
        AdminCommand::Policy { command } => policy(command).map_err(Failure::Asked)?,
        AdminCommand::Generations => Call::get("/admin/generations"),
        AdminCommand::Subservers => Call::get("/admin/subservers"),
        AdminCommand::Drain => Call::post("/admin/drain", &Value::Null),
    };
    let reply = client.send(call).map_err(Failure::Other)?;
    if args.json {
        return output::print(&format!("{reply:#}\n"));
    }
    output::print(&match &args.command {
        AdminCommand::Policy {
            command: PolicyCommand::List,
        } => print::list(&reply),
        AdminCommand::Policy {
            command: PolicyCommand::Status,
        } => print::status(&reply),
        AdminCommand::Policy { .. } => print::done(&reply),
        AdminCommand::Generations => print::rows(&reply["generations"]),
        AdminCommand::Subservers => print::rows(&reply["subservers"]),
        AdminCommand::Drain => print::drained(&reply),
    })
}

fn policy(command: &PolicyCommand) -> anyhow::Result<Call> {
    let path = |name: &str, what: &str| format!("/admin/policies/{}/{what}", client::encode(name));
    Ok(match command {
        PolicyCommand::Put(args) => put(args)?,
        PolicyCommand::List | PolicyCommand::Status => Call::get("/admin/policies"),
        PolicyCommand::Activate {
            name,
            generation,
            option,
            by_name_only,
            expect,
        } => {
            let options = (!option.is_empty()).then(|| options(option));
            let body =
                json!({ "generation": generation, "options": options, "default": !by_name_only, "expected": expect });
            Call::post(&path(name, "activate"), &body)
        }
        PolicyCommand::Canary {
            name,
            share,
            generation,
            expect,
        } => {
            let body = json!({ "share": share, "generation": generation, "expected": expect });
            Call::post(&path(name, "canary"), &body)
        }
        PolicyCommand::Shadow {
            name,
            share,
            generation,
            expect,
        } => {
            let body = json!({ "share": share, "generation": generation, "expected": expect });
            Call::post(&path(name, "shadow"), &body)
        }
        PolicyCommand::Rollback {
            name,
            generation,
            expect,
        } => Call::post(
            &path(name, "rollback"),
            &json!({ "generation": generation, "expected": expect }),
        ),
        PolicyCommand::Delete { name } => Call {
            method: "DELETE",
            path: format!("/admin/policies/{}", client::encode(name)),
            body: Vec::new(),
        },
    })
}

fn put(args: &PutArgs) -> anyhow::Result<Call> {
    let body = std::fs::read(&args.file).with_context(|| format!("cannot read {}", args.file.display()))?;
    let stem = || args.file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = args.name.clone().or_else(stem).unwrap_or_default();
    let mut query = vec![
        format!("activate={}", args.activate),
        format!("default={}", !args.by_name_only),
    ];
    // What is sent is what was read here: damage on the way is found at the other end.
    let sha256 = args.sha256.clone().unwrap_or_else(|| Digest::of(&body).to_string());
    query.push(format!("sha256={}", client::encode(&sha256)));
    if !args.option.is_empty() {
        query.push(format!(
            "options={}",
            client::encode(&options(&args.option).to_string())
        ));
    }
    if let Some(path) = &args.signature {
        query.push(format!("signature={}", client::encode(read(path)?.trim())));
    }
    if let Some(expected) = args.expect {
        query.push(format!("expected={expected}"));
    }
    let path = format!("/admin/policies/{}?{}", client::encode(&name), query.join("&"));
    Ok(Call {
        method: "PUT",
        path,
        body,
    })
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn options(settings: &[Setting]) -> Value {
    let option = |setting: &Setting| (setting.name.clone(), OptionValue::from(&setting.value).to_json());
    Value::Object(settings.iter().map(option).collect::<Map<_, _>>())
}
