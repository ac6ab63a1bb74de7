//! `tokenrouter-host models`: models by name.

mod args;
mod progress;

use tokenrouter_host::hub::{CachedModel, HubError, Repo, Settings, pull};

use args::ModelsCommand;
pub(super) use args::{MODELS_EXAMPLES, ModelsArgs};
use progress::Bar;

use super::Failure;
use super::output::{print, print_json};
use super::table::Table;

pub(super) fn run(args: &ModelsArgs) -> Result<(), Failure> {
    let settings = Settings::of_environment().map_err(Failure::asked)?;
    match &args.command {
        ModelsCommand::Pull { model } => pull_one(&settings, model),
        ModelsCommand::List { json } => list(&settings, *json),
    }
}

fn pull_one(settings: &Settings, repo: &Repo) -> Result<(), Failure> {
    let bar = Bar::new();
    let pulled = pull(settings, repo, &bar);
    bar.end();
    let pulled = pulled.map_err(failure)?;
    let commit = pulled.commit.map_or(String::new(), |commit| format!(" at {commit}"));
    let came = indicatif::BinaryBytes(pulled.downloaded_bytes);
    print(&format!(
        "{repo}{commit}: whole, {came} downloaded\n{}\nIn a deployment file: source = \"hf://{repo}\"\n",
        pulled.path.display()
    ))
}

/// What asking differently would mend ends with 2, what trying again may mend with 1.
fn failure(error: HubError) -> Failure {
    match error {
        HubError::Transport { .. } | HubError::Corrupt { .. } | HubError::Locked { .. } | HubError::Disk { .. } => {
            Failure::other(error)
        }
        error => Failure::asked(error),
    }
}

fn list(settings: &Settings, is_json: bool) -> Result<(), Failure> {
    let models = settings.cache.models().map_err(Failure::other)?;
    if is_json {
        let records: Vec<serde_json::Value> = models.iter().map(record).collect();
        return print_json(&records);
    }
    let folder = settings.cache.root().display();
    if models.is_empty() {
        return print(&format!(
            "no models in {folder}; fetch one with: tokenrouter-host models pull ORG/NAME\n"
        ));
    }
    let headings = ["model", "revision", "commit", "size", "state"].map(str::to_owned);
    let mut table = Table::new(headings.to_vec());
    for model in &models {
        table.push(vec![
            model.id.clone(),
            model.revisions.join(", "),
            model.commit.chars().take(8).collect(),
            indicatif::BinaryBytes(model.bytes).to_string(),
            state(model),
        ]);
    }
    print(&format!("{table}in {folder}\n"))
}

fn state(model: &CachedModel) -> String {
    let folder = match &model.missing {
        None => None,
        Some(missing) if missing.is_empty() => Some("whole".to_owned()),
        Some(missing) => Some(format!("lacks {}", missing.join(", "))),
    };
    let parts: Vec<String> = folder.into_iter().chain(model.ggufs.iter().cloned()).collect();
    parts.join("; ")
}

fn record(model: &CachedModel) -> serde_json::Value {
    serde_json::json!({
        "id": model.id,
        "commit": model.commit,
        "revisions": model.revisions,
        "folder": model.folder,
        "bytes": model.bytes,
        "gguf": model.ggufs,
        "missing": model.missing,
    })
}
