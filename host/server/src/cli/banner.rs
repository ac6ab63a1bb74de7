//! What is printed once the server listens: what is served, where, and what to try.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokenrouter_engine::Optimistic;
use tokenrouter_host::deployment::{DeploymentFile, LoadedHead, LoadedPolicy};
use tokenrouter_host::http::App;

/// A problem of the kind that the models of the binary were trained on. The small one alone gets it wrong.
const EMBEDDED_PROMPT: &str = "23*03-98-37*05=";

/// A prompt for any other model.
const PLAIN_PROMPT: &str = "Once upon a time";

/// Where clients and administrators are listened to.
#[derive(Clone, Copy)]
pub(super) struct Listening {
    pub(super) clients: SocketAddr,
    pub(super) has_tls: bool,
    pub(super) admin: Option<SocketAddr>,
}

/// The banner's lines.
pub(super) fn text(file: &DeploymentFile, app: &App, listening: Listening) -> String {
    let mut lines = vec![
        format!("tokenrouter-host {}", env!("CARGO_PKG_VERSION")),
        row("deployment", &format!("{} ({})", file.name, file.file)),
    ];
    let width = app.models.iter().map(|model| model.name.len()).max().unwrap_or(0);
    for (index, model) in app.models.iter().enumerate() {
        let label = if index == 0 { "models" } else { "" };
        let (parameters, context) = (count(model.info.parameters), model.info.context_max);
        let (name, source) = (&model.name, &model.source);
        lines.push(row(
            label,
            &format!("{name:width$}  {parameters} parameters, context {context}, {source}"),
        ));
    }
    for (index, it) in app.heads.iter().enumerate() {
        lines.push(row(if index == 0 { "heads" } else { "" }, &head(it)));
    }
    match app.policies().as_slice() {
        [] => lines.push(row("policy", &format!("none: {} answers alone", app.models[0].name))),
        policies => lines.extend(policies.iter().map(|it| row("policy", &policy(it)))),
    }
    let launch = match file.launch.optimistic.0 {
        Optimistic::Off => file.launch.rule.to_string(),
        optimistic => format!("{}, optimistic {optimistic}", file.launch.rule),
    };
    lines.push(row("launch", &launch));
    lines.push(row("KV", &kv(app)));
    if let Some(admin) = listening.admin {
        lines.push(row("admin", &format!("http://{}", reachable(admin))));
    }
    let scheme = if listening.has_tls { "https" } else { "http" };
    let url = format!("{scheme}://{}", reachable(listening.clients));
    lines.push(row("listening", &url));
    let prompt = if file.models.iter().all(|model| model.source.is_embedded()) {
        EMBEDDED_PROMPT
    } else {
        PLAIN_PROMPT
    };
    lines.push(format!(
        "\nTry:\n  curl {url}/v1/completions -H 'content-type: application/json' \\\n    \
         -d '{{\"model\": \"{}\", \"prompt\": \"{prompt}\", \"max_tokens\": 64, \"temperature\": 0}}'",
        file.name
    ));
    lines.join("\n")
}

fn row(label: &str, text: &str) -> String {
    format!("  {label:10}  {text}")
}

fn head(head: &LoadedHead) -> String {
    let untrained = if head.header.trained { "" } else { ", NOT TRAINED" };
    let (name, kind, model) = (&head.name, head.header.kind, &head.model);
    format!(
        "{name}  {kind} for {model}, {} parameters{untrained}",
        count(head.parameters)
    )
}

fn policy(policy: &LoadedPolicy) -> String {
    let options: Vec<String> = policy
        .options
        .iter()
        .map(|option| {
            let note = if option.given { "" } else { " (default)" };
            format!("{}={}{note}", option.name, option.value.to_json())
        })
        .collect();
    let options = if options.is_empty() {
        "no options".to_owned()
    } else {
        options.join(", ")
    };
    format!("{} {}: {options}", policy.name, policy.version)
}

fn kv(app: &App) -> String {
    let tokens = app.engine.limits().kv_tokens;
    let bytes_per_token: u64 = app.models.iter().map(|model| model.info.kv_bytes_per_token).sum();
    let mebibytes = (tokens as u64 * bytes_per_token).div_ceil(1 << 20);
    format!("{tokens} tokens in each model, {mebibytes} MiB in all")
}

/// A number with three digits and a unit: 398_000 is 0.40 M.
fn count(number: u64) -> String {
    let millions = number as f64 / 1e6;
    if millions < 1_000.0 {
        format!("{millions:.2} M")
    } else {
        format!("{:.2} B", millions / 1e3)
    }
}

/// An address that a client on this machine can use: "any address" is not one.
fn reachable(local: SocketAddr) -> SocketAddr {
    let ip = match local.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, local.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_is_shown_as_one_that_can_be_reached() {
        for (local, shown) in [
            ("0.0.0.0:8080", "127.0.0.1:8080"),
            ("[::]:8080", "[::1]:8080"),
            ("10.0.0.7:80", "10.0.0.7:80"),
        ] {
            assert_eq!(reachable(local.parse().unwrap()).to_string(), shown);
        }
    }

    #[test]
    fn parameters_are_shown_in_millions_or_billions() {
        for (number, shown) in [
            (398_208, "0.40 M"),
            (4_741_632, "4.74 M"),
            (999_999_999, "1000.00 M"),
            (8_000_000_000, "8.00 B"),
        ] {
            assert_eq!(count(number), shown);
        }
    }
}
