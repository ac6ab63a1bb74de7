//! `policy inspect`.

use clap::Args;
use serde::Serialize;
use tokenrouter_core::signal::{Plan, Signal};
use tokenrouter_host::deployment::OptionValue;
use tokenrouter_policy::{CONTRACT_PACKAGE, Surface};

use super::subject::{Subject, SubjectArgs};
use crate::cli::{Failure, output};

/// Options of `policy inspect`.
#[derive(Debug, Args)]
pub(super) struct InspectArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// All there is to see, as JSON has it.
#[derive(Serialize)]
struct Inspection {
    contract: String,
    size_bytes: usize,
    sha256: String,
    name: String,
    version: String,
    summary: String,
    imports: Vec<String>,
    exports: Vec<String>,
    options: Vec<OptionShown>,
    deployment: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PlanShown>,
    /// Why there is no plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

#[derive(Serialize)]
struct OptionShown {
    name: String,
    summary: String,
    default: serde_json::Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    given: Option<serde_json::Value>,
    per_request: bool,
}

#[derive(Serialize)]
struct PlanShown {
    entry: String,
    state_words: usize,
    texts: bool,
    /// By model.
    signals: Vec<SignalsShown>,
}

#[derive(Serialize)]
struct SignalsShown {
    model: String,
    columns: usize,
    signals: Vec<String>,
}

pub(super) fn run(args: &InspectArgs) -> Result<(), Failure> {
    let subject = args.subject.load()?;
    let inspection = inspect(&subject).map_err(Failure::Asked)?;
    if args.json {
        let text = serde_json::to_string_pretty(&inspection).map_err(Failure::other)?;
        return output::print(&format!("{text}\n"));
    }
    output::print(&text(&inspection))
}

fn inspect(subject: &Subject) -> anyhow::Result<Inspection> {
    let surface = Surface::read(&subject.bytes)?;
    let description = subject.code.description();
    let options = description.options.iter().map(|option| {
        let given = subject.options.iter().find(|setting| setting.name == option.name);
        OptionShown {
            name: option.name.clone(),
            summary: option.summary.clone(),
            default: OptionValue::from(&option.default).to_json(),
            given: given.map(|setting| OptionValue::from(&setting.value).to_json()),
            per_request: option.per_request,
        }
    });
    let configured = subject.code.configure(&subject.deployment, &subject.options);
    let (plan, refused) = match configured {
        Ok(generation) => (Some(shown(generation.plan(), subject)), None),
        Err(error) => (None, Some(error.to_string())),
    };
    Ok(Inspection {
        contract: format!("{CONTRACT_PACKAGE}@{}", subject.code.contract_version()),
        size_bytes: subject.bytes.len(),
        sha256: subject.code.digest().to_string(),
        name: description.name.clone(),
        version: description.version.clone(),
        summary: description.summary.clone(),
        imports: surface.imports,
        exports: surface.exports,
        options: options.collect(),
        deployment: format!("{} ({})", subject.file.name, subject.file.file),
        plan,
        refused,
    })
}

fn shown(plan: &Plan, subject: &Subject) -> PlanShown {
    let models = &subject.deployment.models;
    PlanShown {
        entry: models[plan.entry.index()].name.clone(),
        state_words: plan.state_words,
        texts: plan.texts,
        signals: plan
            .signals
            .iter()
            .zip(models)
            .map(|(signals, model)| SignalsShown {
                model: model.name.clone(),
                columns: signals.iter().map(Signal::columns).sum(),
                signals: signals.iter().map(signal).collect(),
            })
            .collect(),
    }
}

/// A signal as the contract calls it.
fn signal(signal: &Signal) -> String {
    tokenrouter_host::trace::signal_name(signal)
}

fn text(inspection: &Inspection) -> String {
    let list = |names: &[String]| {
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    };
    let mut lines = vec![
        format!("{} {}: {}", inspection.name, inspection.version, inspection.summary),
        row("contract", &inspection.contract),
        row("size", &format!("{} bytes", inspection.size_bytes)),
        row("sha256", &inspection.sha256),
        row("imports", &list(&inspection.imports)),
        row("exports", &list(&inspection.exports)),
        "options".to_owned(),
    ];
    if inspection.options.is_empty() {
        lines.push("  none".to_owned());
    }
    for option in &inspection.options {
        let per_request = if option.per_request { ", also per request" } else { "" };
        let given = option
            .given
            .as_ref()
            .map_or_else(String::new, |value| format!(", here {value}"));
        lines.push(format!("  {} = {}{given}{per_request}", option.name, option.default));
        lines.push(format!("      {}", option.summary));
    }
    lines.push(format!("plan for {}", inspection.deployment));
    match (&inspection.plan, &inspection.refused) {
        (Some(plan), _) => {
            lines.push(row("entry", &plan.entry));
            lines.push(row("state", &format!("{} words a request", plan.state_words)));
            lines.push(row("texts", if plan.texts { "yes" } else { "no" }));
            for model in &plan.signals {
                let text = format!("{} ({} columns)", list(&model.signals), model.columns);
                lines.push(row(&format!("at {}", model.model), &text));
            }
        }
        (None, refused) => lines.push(format!("  refused: {}", refused.as_deref().unwrap_or_default())),
    }
    lines.push(String::new());
    lines.join("\n")
}

fn row(label: &str, text: &str) -> String {
    format!("  {label:10} {text}")
}
