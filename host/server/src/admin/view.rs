//! The policies as JSON.

use serde_json::{Map, Value, json};
use tokenrouter_engine::{ComparisonReport, ServedStats};

use crate::policies::{Overview, PolicySet, Record, Trial};

/// Everything there is to see.
pub(super) fn overview(overview: &Overview) -> Value {
    let set = &overview.set;
    json!({
        "default": default(overview),
        "canary": set.canary.map(|trial| self::trial(set, trial)),
        "shadow": shadow(overview),
        "former": set.former.iter().filter_map(|id| set.get(*id)).map(brief).collect::<Vec<_>>(),
        "policies": set.names().iter().map(|name| policy(overview, name)).collect::<Vec<_>>(),
        "persists": overview.persists,
    })
}

/// Name and generation of the default; null without one.
pub(super) fn default(overview: &Overview) -> Value {
    overview
        .set
        .default_generation()
        .and_then(|id| overview.set.get(id))
        .map_or(Value::Null, brief)
}

fn brief(record: &Record) -> Value {
    json!({ "policy": record.name, "generation": record.id })
}

/// One policy with its generations.
pub(super) fn policy(overview: &Overview, name: &str) -> Value {
    let set = &overview.set;
    let generations = set.generations.iter().filter(|record| record.name == name);
    json!({
        "name": name,
        "active": set.active.get(name),
        "is_default": set.default.as_deref() == Some(name),
        "generations": generations.map(record).collect::<Vec<_>>(),
    })
}

fn record(record: &Record) -> Value {
    let options: Map<_, _> = record
        .options
        .iter()
        .map(|(name, value)| (name.clone(), value.to_json()))
        .collect();
    json!({
        "generation": record.id,
        "sha256": record.digest,
        "options": options,
        "signed_by": record.signed_by,
        "created": record.created_s,
        "withdrawn": record.withdrawn,
    })
}

fn trial(set: &PolicySet, trial: Trial) -> Value {
    let name = set.get(trial.generation).map(|record| record.name.as_str());
    json!({ "policy": name, "generation": trial.generation, "share": trial.share })
}

fn shadow(overview: &Overview) -> Value {
    let Some(shadow) = overview.set.shadow else {
        return Value::Null;
    };
    let mut value = trial(&overview.set, shadow);
    if let Some((_, report)) = overview.comparison.as_ref().filter(|(id, _)| *id == shadow.generation) {
        value["comparison"] = comparison(report);
    }
    value
}

/// What the shadow decided. Lists are by model, in the deployment's order.
fn comparison(report: &ComparisonReport) -> Value {
    let (steps, disagreements): (u64, u64) = (report.steps.iter().sum(), report.disagreements.iter().sum());
    json!({
        "steps": steps,
        "disagreements": disagreements,
        "disagreement_rate": (steps > 0).then(|| disagreements as f64 / steps as f64),
        "steps_by_model": report.steps,
        "disagreements_by_model": report.disagreements,
        "moves": report.active,
        "moves_of_shadow": report.shadow,
        "predicted_share_by_model": report.predicted_share,
    })
}

/// The generations that are loaded, with what each is for.
pub(super) fn generations(overview: &Overview) -> Value {
    let live = overview.live.iter().map(|stats| generation(overview, stats));
    json!({ "default": default(overview), "generations": live.collect::<Vec<_>>() })
}

fn generation(overview: &Overview, stats: &ServedStats) -> Value {
    json!({
        "generation": stats.id.0,
        "policy": stats.name,
        "sha256": stats.digest,
        "role": overview.role(stats),
        "requests": stats.requests,
        "running": stats.running,
        "faults": stats.faults,
        "last_fault": stats.last_fault,
        "expelled": stats.expelled,
    })
}
