//! The files for operators name only what is exposed: a panel or an alert on a metric that is not there would be silent for ever.

use std::collections::{BTreeMap, BTreeSet};

use super::catalog::{ENGINE, GENERATION, MODEL, POLICY, REQUESTS, UNKNOWN_FIELDS};
use super::text::{Kind, Metric};

const DASHBOARD: &str = include_str!("../../../../../deploy/grafana-dashboard.json");
const ALERTS: &str = include_str!("../../../../../deploy/alerts.yml");
const RUNBOOK: &str = include_str!("../../../../../docs/runbook.md");

fn kinds() -> BTreeMap<&'static str, bool> {
    fn of<View>(metrics: &'static [Metric<View>]) -> impl Iterator<Item = (&'static str, bool)> {
        metrics.iter().map(|it| (it.name, matches!(it.kind, Kind::Histogram)))
    }
    let single = [(REQUESTS.name, false), (UNKNOWN_FIELDS.name, false)];
    let all = of(ENGINE).chain(of(MODEL)).chain(of(POLICY)).chain(of(GENERATION));
    all.chain(single).collect()
}

/// Every name of ours in a text.
fn named(text: &str) -> BTreeSet<&str> {
    let is_part = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let words = text.split(|it: char| !is_part(it));
    words.filter(|word| word.starts_with("tokenrouter_")).collect()
}

fn unknown(text: &str) -> Vec<String> {
    let kinds = kinds();
    let is_known = |name: &str| match kinds.get(name) {
        Some(is_histogram) => !is_histogram,
        None => ["_bucket", "_sum", "_count"].iter().any(|part| {
            let family = name.strip_suffix(part);
            family.is_some_and(|family| kinds.get(family) == Some(&true))
        }),
    };
    let names = named(text).into_iter().filter(|name| !is_known(name));
    names.map(str::to_owned).collect()
}

#[test]
fn the_dashboard_and_the_alerts_name_metrics_that_exist() {
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).expect("the dashboard is JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut expressions = Vec::new();
    for panel in panels {
        let targets = panel["targets"].as_array().expect("targets");
        let found = targets.iter().filter_map(|target| target["expr"].as_str());
        let before = expressions.len();
        expressions.extend(found);
        assert!(
            expressions.len() > before,
            "a panel without a query: {}",
            panel["title"]
        );
    }
    let expressions = expressions.join("\n");
    assert_eq!(unknown(&expressions), [] as [String; 0]);
    assert!(
        named(&expressions).len() > 20,
        "the dashboard shows most of what is exposed"
    );
    assert_eq!(unknown(ALERTS), [] as [String; 0]);
    assert_eq!(
        unknown("rate(tokenrouter_step_time_seconds[1m])"),
        ["tokenrouter_step_time_seconds"]
    );
    assert_eq!(unknown("tokenrouter_ready_sum"), ["tokenrouter_ready_sum"]);
}

#[test]
fn every_alert_has_its_section_in_the_runbook_and_every_section_its_alert() {
    let after = |text: &'static str, begin: &'static str| -> BTreeSet<&'static str> {
        text.lines()
            .filter_map(|line| line.trim().strip_prefix(begin))
            .collect()
    };
    let alerts = after(ALERTS, "- alert: ");
    let sections: BTreeSet<&str> = after(RUNBOOK, "## Tokenrouter").into_iter().collect();
    let names: BTreeSet<&str> = alerts
        .iter()
        .filter_map(|name| name.strip_prefix("Tokenrouter"))
        .collect();
    assert_eq!(names, sections);
    for name in &alerts {
        let link = format!("runbook: docs/runbook.md#{}", name.to_lowercase());
        assert!(ALERTS.contains(&link), "{name} does not lead to its section");
    }
}
