//! What stands beside the models: chat template, heads, policy, and the server's own files.

use tokenrouter_model::heads::{HeadFile, HeadTarget};
use tokenrouter_policy::PolicyHost;

use super::models::{Examined, Model, about};
use super::{Findings, Level};
use crate::deployment::heads::{UNTRAINED, open, refused};
use crate::deployment::{DeploymentError, DeploymentFile, HeadEntry, LoadedHead, LoadedModel};
use crate::http::Access;
use crate::http::auth::Keys;

pub(super) fn template(file: &DeploymentFile, models: &Examined<'_>, findings: &mut Findings) {
    const ABOUT: &str = "chat template";
    let Some(tokenizer) = &models.tokenizer else { return };
    if models.models.iter().any(Option::is_none) {
        return;
    }
    match findings.take(ABOUT, file.template(tokenizer)) {
        Some(Some(template)) => findings.add(Level::Ok, ABOUT, format!("parses: {}", template.origin())),
        Some(None) => {
            let what = "no model has one: /v1/chat/completions is refused. Name a file with chat_template";
            findings.add(Level::Warn, ABOUT, what);
        }
        None => {}
    }
}

/// The heads; `None` if one cannot be used.
pub(super) fn heads(file: &DeploymentFile, models: &Examined<'_>, findings: &mut Findings) -> Option<Vec<LoadedHead>> {
    let mut all = Some(Vec::new());
    for entry in &file.heads {
        let about = format!("head {}", entry.name);
        let Some((known, head)) = findings.take(&about, open(file, entry)) else {
            all = None;
            continue;
        };
        if !known.header.trained {
            findings.add(Level::Warn, &*about, UNTRAINED);
        }
        match &models.models[known.index.index()] {
            None => findings.add(Level::Warn, &*about, "not held against its model, which cannot be read"),
            Some(model) => match findings.take(&about, fits(entry, &head, model)) {
                Some(()) => findings.add(Level::Ok, &*about, format!("fits model {}", entry.model)),
                None => {
                    all = None;
                    continue;
                }
            },
        }
        if let Some(all) = &mut all {
            all.push(known);
        }
    }
    all
}

fn fits(entry: &HeadEntry, head: &HeadFile, model: &Model<'_>) -> Result<(), DeploymentError> {
    let target = HeadTarget {
        hidden_size: model.opened.config.hidden_size,
        vocabulary: model.opened.config.vocab_size,
    };
    head.fits(target).map_err(|source| refused(entry, source))
}

/// Whether the policy compiles, takes its options, and is given the heads that it asks for.
pub(super) fn policy(
    file: &DeploymentFile,
    models: &Examined<'_>,
    heads: Option<&[LoadedHead]>,
    findings: &mut Findings,
) {
    const ABOUT: &str = "policy";
    let (Some(all), Some(heads)) = (models.all(), heads) else {
        findings.add(
            Level::Warn,
            ABOUT,
            "not tried: it is told of models and heads, which must be right first",
        );
        return;
    };
    let loaded: Vec<LoadedModel> = (all.iter())
        .map(|(model, info)| LoadedModel {
            name: model.opened.entry.name.clone(),
            source: model.opened.entry.source.to_string(),
            info: (*info).clone(),
        })
        .collect();
    let host = PolicyHost::new(file.policy.limits.policy_limits()).map_err(DeploymentError::PolicyHost);
    let tried = host.and_then(|host| file.policy(&host, &file.facts(&loaded, heads)));
    match findings.take(ABOUT, tried) {
        Some(Some(first)) => {
            let given = file.policy.options.len();
            findings.add(
                Level::Ok,
                ABOUT,
                format!("{} takes its {given} options and these models", first.name),
            );
        }
        Some(None) if all.len() > 1 => {
            let what = format!(
                "none: {} answers alone. Name one with policy.plugin",
                about(all[0].0.opened.entry)
            );
            findings.add(Level::Warn, ABOUT, what);
        }
        Some(None) => findings.add(Level::Ok, ABOUT, "none, for one model"),
        None => {}
    }
}

/// Keys and certificates of the HTTP server.
pub(super) fn server(file: &DeploymentFile, findings: &mut Findings) {
    let server = &file.server;
    if server.api_key_file.is_none() && server.tls.is_none() {
        return;
    }
    match Access::read(server, &file.base, Keys::default()) {
        Ok(_) => findings.add(Level::Ok, "server", "keys and certificate can be read"),
        Err(error) => findings.add(Level::Error, "server", error.to_string()),
    }
}
