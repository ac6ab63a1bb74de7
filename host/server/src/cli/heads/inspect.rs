//! `heads inspect`.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use serde_json::json;
use tokenrouter_model::heads::{HeadFile, HeadInput, Network};
use tokenrouter_policy::Digest;

use super::args::InspectArgs;
use crate::cli::{Failure, output};

pub(super) fn run(args: &InspectArgs) -> Result<(), Failure> {
    show(&args.file, args.json)
}

/// Prints what a file holds.
pub(super) fn show(path: &Path, as_json: bool) -> Result<(), Failure> {
    let (head, digest) = read(path).map_err(Failure::Asked)?;
    output::print(&if as_json {
        json_text(&head, digest)
    } else {
        text(&head, digest)
    })
}

fn read(path: &Path) -> anyhow::Result<(HeadFile, Digest)> {
    let file = path.display().to_string();
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {file}"))?;
    Ok((HeadFile::parse(&bytes, &file)?, Digest::of(&bytes)))
}

fn json_text(head: &HeadFile, digest: Digest) -> String {
    let tensors: Vec<_> = head
        .tensors()
        .map(|(name, shape)| json!({ "name": name, "shape": shape }))
        .collect();
    let object = json!({
        "file": head.file(),
        "sha256": digest.to_string(),
        "parameters": head.parameters(),
        "header": head.header(),
        "tensors": tensors,
    });
    format!("{object:#}\n")
}

fn text(head: &HeadFile, digest: Digest) -> String {
    let header = head.header();
    let inputs: Vec<String> = header
        .inputs
        .iter()
        .map(|input| match input {
            HeadInput::Hidden => format!("hidden state ({})", header.width(*input)),
            HeadInput::Token => format!("embedding of the candidate ({})", header.width(*input)),
            HeadInput::Logits => format!("{} largest logits", header.width(*input)),
        })
        .collect();
    let model = &header.model;
    let size = |name: &str, size: Option<usize>| size.map(|size| format!("{name} {size}"));
    let sizes = [
        size("hidden size", model.hidden_size),
        size("vocabulary", model.vocabulary),
    ];
    let known: Vec<String> = model.name.iter().cloned().chain(sizes.into_iter().flatten()).collect();
    let threshold = match header.threshold {
        Some(threshold) => format!("{threshold}, as it came with the weights; the policy's own counts"),
        None => "none came with the weights".to_owned(),
    };
    let mut text = String::new();
    for (label, value) in [
        ("file", head.file().to_owned()),
        ("kind", header.kind.to_string()),
        ("network", network(&header.network)),
        ("inputs", inputs.join(", ")),
        ("model", known.join(", ")),
        ("parameters", head.parameters().to_string()),
        ("threshold", threshold),
        (
            "trained",
            if header.trained {
                "yes"
            } else {
                "NO: its scores mean nothing"
            }
            .to_owned(),
        ),
        ("source", header.source.clone()),
        ("sha256", digest.to_string()),
    ] {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{label:10}  {value}");
    }
    text
}

fn network(network: &Network) -> String {
    match network {
        Network::Classifier {
            dims,
            expansion,
            classes,
            normalize_input,
        } => {
            let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
            let normalized = if *normalize_input { ", inputs normalised" } else { "" };
            let classes = if *classes == 1 {
                "one output".to_owned()
            } else {
                format!("{classes} classes")
            };
            format!(
                "classifier, blocks {} x{expansion}, {classes}{normalized}",
                dims.join(" ")
            )
        }
        Network::Mlp { dims, activation } => {
            let mut parts: Vec<String> = dims.iter().map(ToString::to_string).collect();
            parts.push("1".to_owned());
            let function = activation
                .map(|function| format!(", {function:?}").to_lowercase())
                .unwrap_or_default();
            format!("linear layers to {}{function}", parts.join(", "))
        }
    }
}
