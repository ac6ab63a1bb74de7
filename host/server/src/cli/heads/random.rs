//! `heads random`.

use anyhow::bail;
use tokenrouter_host::deployment::DeploymentFile;
use tokenrouter_model::heads::{
    Activation, FORMAT, HeadFile, HeadHeader, HeadInput, HeadKind, HeadModel, Network, random,
};

use super::args::RandomArgs;
use super::{Failure, write};

/// Blocks of the published classifiers.
const BLOCKS: usize = 6;

/// Logits that they read.
const TOP_LOGITS: usize = 100;

pub(super) fn run(args: &RandomArgs) -> Result<(), Failure> {
    let head = made(args).map_err(Failure::Asked)?;
    write(&head, &args.out)
}

fn made(args: &RandomArgs) -> anyhow::Result<HeadFile> {
    let file = match &args.config {
        Some(path) => DeploymentFile::read(path)?,
        None => DeploymentFile::built_in()?,
    };
    let Some(model) = file.models.iter().find(|model| model.name == args.model) else {
        let names: Vec<&str> = file.models.iter().map(|model| model.name.as_str()).collect();
        bail!(
            "--model \"{}\": {} has no such model; it has {}",
            args.model,
            file.file,
            names.join(", ")
        );
    };
    let config = model.resolve(&file.base)?.config()?;
    let model = HeadModel {
        name: Some(args.model.clone()),
        hidden_size: Some(config.hidden_size),
        vocabulary: Some(config.vocab_size),
    };
    Ok(random(
        header(args, model, config.hidden_size, config.vocab_size)?,
        args.seed,
    )?)
}

/// A head of the published sizes, as far as the model allows.
fn header(args: &RandomArgs, model: HeadModel, hidden: usize, vocabulary: usize) -> anyhow::Result<HeadHeader> {
    let kind = HeadKind::from(args.kind);
    let dims = |default: Vec<usize>| match args.dims.as_slice() {
        [] => default,
        given => given.to_vec(),
    };
    let mlp = |dims: Vec<usize>| {
        let activation = (!dims.is_empty()).then_some(Activation::Relu);
        Network::Mlp { dims, activation }
    };
    let network = match kind {
        HeadKind::R2r => Network::Classifier {
            dims: dims(vec![hidden; BLOCKS]),
            expansion: 4,
            classes: 1,
            normalize_input: false,
        },
        HeadKind::Mlp => mlp(dims(vec![hidden])),
        _ if !args.dims.is_empty() => bail!("--dims is for --kind r2r and mlp; a head of kind {kind} has no choice"),
        HeadKind::Citer => mlp(vec![2 * hidden]),
        HeadKind::CoLlm | HeadKind::Linear => mlp(Vec::new()),
    };
    let reads_logits = kind == HeadKind::R2r;
    Ok(HeadHeader {
        format: FORMAT,
        kind,
        model,
        inputs: match reads_logits {
            true => vec![HeadInput::Hidden, HeadInput::Token, HeadInput::Logits],
            false => vec![HeadInput::Hidden],
        },
        top_logits: reads_logits.then_some(TOP_LOGITS.min(vocabulary)),
        network,
        threshold: None,
        trained: false,
        source: String::new(),
    })
}
