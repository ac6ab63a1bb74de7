//! The admin API's replies as text.

use serde_json::Value;

use crate::cli::table::Table;

/// A value as a cell: texts without their quotes, nothing for null.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What came of a change.
pub(super) fn done(reply: &Value) -> String {
    let mut text = cell(&reply["policy"]);
    if !reply["generation"].is_null() {
        text += &format!(", generation {}", reply["generation"]);
    }
    if reply["unchanged"] == true {
        text += ": as it was";
    }
    let compiled = reply["compile_us"].as_u64().filter(|time| *time > 0);
    let milliseconds = |time: u64| time as f64 / 1e3;
    if let Some(compile_us) = compiled {
        text += &format!(", compiled in {:.1} ms", milliseconds(compile_us));
    }
    let took_us = reply["took_us"].as_u64().unwrap_or(0);
    format!(
        "{text}, done in {:.1} ms\ndefault: {}\n",
        milliseconds(took_us),
        brief(&reply["default"])
    )
}

fn brief(value: &Value) -> String {
    if value.is_null() {
        return "none".to_owned();
    }
    format!("{}, generation {}", cell(&value["policy"]), value["generation"])
}

/// All policies with their generations, one a row.
pub(super) fn list(reply: &Value) -> String {
    let headings = ["policy", "generation", "serves", "sha256", "options", "withdrawn"];
    let mut table = Table::new(headings.map(str::to_owned).to_vec());
    for policy in items(&reply["policies"]) {
        for generation in items(&policy["generations"]) {
            let serves = match (
                policy["active"] == generation["generation"],
                policy["is_default"] == true,
            ) {
                (true, true) => "default",
                (true, false) => "by name",
                (false, _) => "-",
            };
            let sha256: String = cell(&generation["sha256"]).chars().take(12).collect();
            table.push(vec![
                cell(&policy["name"]),
                cell(&generation["generation"]),
                serves.to_owned(),
                sha256,
                cell(&generation["options"]),
                cell(&generation["withdrawn"]),
            ]);
        }
    }
    table.to_string()
}

/// What serves and what is on trial.
pub(super) fn status(reply: &Value) -> String {
    let former: Vec<String> = items(&reply["former"]).iter().rev().map(brief).collect();
    let mut text = format!("default  {}\n", brief(&reply["default"]));
    text += &format!(
        "before   {}\n",
        if former.is_empty() {
            "nothing".to_owned()
        } else {
            former.join("; ")
        }
    );
    for (label, trial) in [("canary", &reply["canary"]), ("shadow", &reply["shadow"])] {
        if !trial.is_null() {
            text += &format!("{label}   {}, share {}\n", brief(trial), trial["share"]);
        }
    }
    let comparison = &reply["shadow"]["comparison"];
    if !comparison.is_null() {
        let percent = |value: &Value| {
            value
                .as_f64()
                .map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0))
        };
        let shares: Vec<String> = items(&comparison["predicted_share_by_model"])
            .iter()
            .map(percent)
            .collect();
        text += &format!(
            "         asked at {} steps, would have gone elsewhere at {} ({})\n         tokens by model if it decided: {}\n",
            comparison["steps"],
            comparison["disagreements"],
            percent(&comparison["disagreement_rate"]),
            if shares.is_empty() {
                "not known yet".to_owned()
            } else {
                shares.join(", ")
            },
        );
    }
    let kept = if reply["persists"] == true {
        "survives a restart"
    } else {
        "does not survive a restart (no --state-dir)"
    };
    text + &format!("state    {kept}\n")
}

/// Objects of the same kind, one a row.
pub(super) fn rows(reply: &Value) -> String {
    let rows = items(reply);
    let Some(first) = rows.first().and_then(Value::as_object) else {
        return "none\n".to_owned();
    };
    let names: Vec<String> = first.keys().cloned().collect();
    let mut table = Table::new(names.clone());
    for row in rows {
        let short = |name: &String| {
            cell(&row[name])
                .chars()
                .take(if name == "sha256" { 12 } else { 200 })
                .collect()
        };
        table.push(names.iter().map(short).collect());
    }
    table.to_string()
}

/// What is left to do before the end.
pub(super) fn drained(reply: &Value) -> String {
    format!(
        "no more requests are taken; {} run, {} wait\n",
        reply["requests_running"], reply["requests_waiting"]
    )
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
