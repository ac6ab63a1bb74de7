//! `heads convert`.

use std::path::Path;

use anyhow::{Context as _, bail};
use tokenrouter_host::deployment::ModelSource;
use tokenrouter_model::heads::checkpoint::Checkpoint;
use tokenrouter_model::heads::convert::{ConvertOptions, convert};
use tokenrouter_model::heads::{HeadFile, HeadModel};

use super::args::{ConvertArgs, Kind};
use super::{Failure, write};

pub(super) fn run(args: &ConvertArgs) -> Result<(), Failure> {
    let out = args.out.clone();
    let head = converted(args).map_err(Failure::Asked)?;
    write(&head, &out)
}

fn converted(args: &ConvertArgs) -> anyhow::Result<HeadFile> {
    if args.row.is_some() && args.kind != Kind::CoLlm {
        bail!("--row is for --kind co-llm only");
    }
    match (args.kind, args.activation) {
        (Kind::Mlp, None) => bail!("--kind mlp needs --activation relu, gelu or silu: a checkpoint does not say it"),
        (Kind::Mlp, Some(_)) | (_, None) => {}
        (_, Some(_)) => bail!("--activation is for --kind mlp only"),
    }
    let options = ConvertOptions {
        model: args.model.as_ref().map(known).transpose()?.unwrap_or_default(),
        row: args.row,
        activation: args.activation.map(Into::into),
    };
    let mut checkpoint = Checkpoint::open(&args.file)?;
    Ok(convert(&mut checkpoint, args.kind.into(), &options)?)
}

/// What a model's configuration says of it.
fn known(source: &ModelSource) -> anyhow::Result<HeadModel> {
    let config = source.resolve(Path::new(""))?.config().context("--model")?;
    Ok(HeadModel {
        name: Some(source.to_string()),
        hidden_size: Some(config.hidden_size),
        vocabulary: Some(config.vocab_size),
    })
}
