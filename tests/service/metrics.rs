//! `/metrics`: a strict reader of Prometheus' text format, and counts compared with what was sent.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::clients::is_idle;
use crate::common::{Server, not_hanging, wait_for_info};

/// A sample's name and labels, in their order.
type Series = (String, Vec<(String, String)>);

/// A text that was read: values by series, and metrics by name with their type.
#[derive(Debug, Default)]
pub struct Metrics {
    samples: BTreeMap<Series, f64>,
    types: BTreeMap<String, String>,
}

impl Metrics {
    pub async fn of(server: &Server) -> Self {
        let reply = server.get("/metrics").await;
        assert_eq!(reply.status, 200);
        assert_eq!(
            reply.headers["content-type"],
            "text/plain; version=0.0.4; charset=utf-8"
        );
        Self::read(&reply.body).unwrap_or_else(|error| panic!("{error} in:\n{}", reply.body))
    }

    /// Sum of all samples of a name that have these labels.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has = |of: &[(String, String)]| {
            labels
                .iter()
                .all(|(l, v)| of.iter().any(|(label, value)| label == l && value == v))
        };
        let found: Vec<f64> = self
            .samples
            .iter()
            .filter(|((sample, of), _)| sample == name && has(of))
            .map(|(_, value)| *value)
            .collect();
        assert!(!found.is_empty(), "no {name} with {labels:?}");
        found.iter().sum()
    }

    /// Line by line; every metric has its help and its type once, before its samples and together with them.
    fn read(text: &str) -> Result<Self, String> {
        let mut metrics = Self::default();
        let (mut helped, mut current) = (BTreeSet::new(), String::new());
        if !text.ends_with('\n') {
            return Err("the last line has no end".to_owned());
        }
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, help) = help.split_once(' ').ok_or(line)?;
                if help.is_empty() || !helped.insert(name.to_owned()) {
                    return Err(format!("{name} has no help, or two: {line}"));
                }
                name.clone_into(&mut current);
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').ok_or(line)?;
                if name != current || !["counter", "gauge", "histogram"].contains(&kind) {
                    return Err(format!("out of place: {line}"));
                }
                if metrics.types.insert(name.to_owned(), kind.to_owned()).is_some() {
                    return Err(format!("twice: {line}"));
                }
            } else {
                let (series, value) = sample(line).ok_or_else(|| format!("not a sample: {line}"))?;
                let kind = metrics.types.get(&current).ok_or(line)?;
                let suffixes: &[&str] = if kind == "histogram" {
                    &["_bucket", "_sum", "_count"]
                } else {
                    &[""]
                };
                if !suffixes.iter().any(|suffix| series.0 == format!("{current}{suffix}")) {
                    return Err(format!("under {current}: {line}"));
                }
                if kind == "counter" && !current.ends_with("_total") || value < 0.0 || !value.is_finite() {
                    return Err(format!("no good value or name: {line}"));
                }
                if metrics.samples.insert(series, value).is_some() {
                    return Err(format!("the same series twice: {line}"));
                }
            }
        }
        metrics.check_histograms()?;
        Ok(metrics)
    }

    /// Buckets ascend, the last is everything, and agrees with the count.
    fn check_histograms(&self) -> Result<(), String> {
        let mut buckets: BTreeMap<Series, Vec<(f64, f64)>> = BTreeMap::new();
        for ((name, labels), value) in &self.samples {
            let Some(histogram) = name.strip_suffix("_bucket") else {
                continue;
            };
            let (le, others): (Vec<_>, Vec<_>) = labels.iter().cloned().partition(|(label, _)| label == "le");
            let [(_, le)] = &le[..] else {
                return Err(format!("{name}: one le, not {le:?}"));
            };
            let bound = if le == "+Inf" {
                f64::INFINITY
            } else {
                le.parse().map_err(|_| le.clone())?
            };
            buckets
                .entry((histogram.to_owned(), others))
                .or_default()
                .push((bound, *value));
        }
        for ((name, labels), mut of) in buckets {
            of.sort_by(|a, b| a.0.total_cmp(&b.0));
            let count = self.samples.get(&(format!("{name}_count"), labels.clone()));
            let ascends = of.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1);
            let last = of
                .last()
                .filter(|(bound, _)| bound.is_infinite())
                .map(|(_, value)| value);
            if !ascends
                || last.is_none()
                || last != count
                || !self.samples.contains_key(&(format!("{name}_sum"), labels))
            {
                return Err(format!("{name} is no histogram: {of:?}, count {count:?}"));
            }
        }
        Ok(())
    }
}

/// `name{label="value",…} number`
fn sample(line: &str) -> Option<(Series, f64)> {
    let plain = |name: &str| {
        let mut bytes = name.bytes();
        let starts = bytes
            .next()
            .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
        starts && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let (name, mut rest) = line.split_once('{')?;
    let mut labels = Vec::new();
    loop {
        let (label, after) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = after.char_indices();
        let end = loop {
            match characters.next()? {
                (at, '"') => break at,
                (_, '\\') => value.push(match characters.next()?.1 {
                    'n' => '\n',
                    character @ ('\\' | '"') => character,
                    _ => return None,
                }),
                (_, character) => value.push(character),
            }
        };
        if !plain(label) || labels.iter().any(|(known, _)| known == label) {
            return None;
        }
        labels.push((label.to_owned(), value));
        rest = &after[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => break,
        }
    }
    let value = rest.strip_prefix("} ")?.parse().ok()?;
    plain(name).then(|| ((name.to_owned(), labels), value))
}

#[test]
fn the_reader_is_strict() {
    let good = "# HELP a_total x\n# TYPE a_total counter\na_total{l=\"v\\\"\"} 1\n";
    assert!(Metrics::read(good).is_ok());
    for bad in [
        "a_total{l=\"v\"} 1\n",
        "# HELP a_total x\n# TYPE a_total counter\na_total{l=\"v\"} 1",
        "# HELP a_total x\n# TYPE a_total counter\na_total{l=\"v} 1\n",
        "# HELP a_total x\n# TYPE a_total counter\na_total{l=\"v\"} 1\na_total{l=\"v\"} 1\n",
        "# HELP a_total x\n# TYPE a_total counter\nb_total{l=\"v\"} 1\n",
        "# HELP a x\n# TYPE a counter\na{l=\"v\"} 1\n",
        "# HELP a x\n# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\na_sum{l=\"\"} 1\na_count{l=\"\"} 1\n",
    ] {
        assert!(Metrics::read(bad).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn what_was_sent_is_what_is_counted() {
    let server = Server::start(&["--plugin", "random", "--plugin-config", "share=0.3"]);
    let before = Metrics::of(&server).await;
    let mut tokens = BTreeMap::from([("small", 0.0), ("large", 0.0)]);
    let (mut prompt_tokens, mut completion_tokens, mut handoffs) = (0.0, 0.0, 0.0);
    let requests = 6;
    for seed in 0..requests {
        let body = json!({ "prompt": "12+34=", "max_tokens": 9, "seed": seed, "stream": false });
        let answer = server.answer(&body).await;
        for (model, count) in &mut tokens {
            *count += answer.tokens_of(model) as f64;
        }
        prompt_tokens += answer.usage["prompt_tokens"].as_f64().expect("a count");
        completion_tokens += answer.completion_tokens() as f64;
        handoffs += answer.handoffs() as f64;
    }
    // One alone at its model, one that is refused, one unknown path.
    server
        .answer(&json!({ "model": "tiny/large", "prompt": "12+34=", "max_tokens": 3, "seed": 1, "made_up": 1 }))
        .await;
    server.complete(&json!({ "prompt": 7 })).await;
    server.get("/nothing").await;

    wait_for_info(&server, "idle", is_idle).await;

    let after = Metrics::of(&server).await;
    let routed = [("model", "tiny"), ("policy", "random")];
    assert_eq!(
        after.sum("tokenrouter_request_success_total", &routed),
        f64::from(requests)
    );
    assert_eq!(after.sum("tokenrouter_request_failure_total", &routed), 0.0);
    assert_eq!(after.sum("tokenrouter_prompt_tokens_total", &routed), prompt_tokens);
    assert_eq!(after.sum("tokenrouter_request_handoffs_total", &routed), handoffs);
    for (model, count) in tokens {
        let labels = [("policy", "random"), ("written_by", &*format!("tiny/{model}"))];
        assert_eq!(
            after.sum("tokenrouter_generation_tokens_total", &labels),
            count,
            "{model}"
        );
    }
    for (histogram, count) in [
        ("time_to_first_token_seconds", f64::from(requests)),
        ("e2e_request_latency_seconds", f64::from(requests)),
        ("request_queue_time_seconds", f64::from(requests)),
        ("request_generation_tokens", f64::from(requests)),
        ("inter_token_latency_seconds", completion_tokens - f64::from(requests)),
    ] {
        assert_eq!(
            after.sum(&format!("tokenrouter_{histogram}_count"), &routed),
            count,
            "{histogram}"
        );
    }
    assert_eq!(
        after.sum("tokenrouter_request_success_total", &[("policy", "none")]),
        1.0
    );
    assert_eq!(after.sum("tokenrouter_handoffs_total", &[]), handoffs);
    assert_eq!(after.sum("tokenrouter_handoff_latency_seconds_count", &[]), handoffs);
    let small = [("model", "tiny/small")];
    let steps = after.sum("tokenrouter_steps_total", &small);
    for histogram in ["step_time_seconds", "batch_size", "route_time_seconds"] {
        assert_eq!(
            after.sum(&format!("tokenrouter_{histogram}_count"), &small),
            steps,
            "{histogram}"
        );
    }
    for idle in [
        "num_requests_running",
        "num_requests_waiting",
        "model_requests_running",
        "model_requests_pending",
        "kv_cache_usage_perc",
    ] {
        assert_eq!(after.sum(&format!("tokenrouter_{idle}"), &[]), 0.0, "{idle}");
    }
    assert_eq!(
        after.sum("tokenrouter_unknown_fields_total", &[("field", "made_up")]),
        1.0
    );
    assert_eq!(after.sum("tokenrouter_ready", &[]), 1.0);
    assert_eq!(after.sum("tokenrouter_model_up", &[]), 2.0);

    let completions = |metrics: &Metrics, code| {
        metrics.sum(
            "tokenrouter_http_requests_total",
            &[("route", "/v1/completions"), ("code", code)],
        )
    };
    assert_eq!(completions(&after, "200"), f64::from(requests) + 1.0);
    assert_eq!(completions(&after, "400"), 1.0);
    assert_eq!(
        after.sum(
            "tokenrouter_http_requests_total",
            &[("route", "other"), ("code", "404")]
        ),
        1.0
    );
    assert_eq!(before.types, after.types, "all metrics are there from the start");
}

/// Paths and policies come from outside: whatever is sent, the number of series stays as it is.
#[tokio::test]
async fn series_do_not_grow_with_what_clients_make_up() {
    let server = Server::start(&[]);
    server.get("/nothing").await;
    server.complete(&json!({ "model": "tiny@nobody", "prompt": "1" })).await;
    let before = Metrics::of(&server).await;
    // Asking for metrics is a request as well.
    let before = Metrics::of(&server).await.samples.len().max(before.samples.len());
    for number in 0..50 {
        server.get(&format!("/nothing/{number}")).await;
        server
            .complete(&json!({ "model": format!("tiny@{number}"), "prompt": "1" }))
            .await;
    }
    assert_eq!(Metrics::of(&server).await.samples.len(), before);
    not_hanging("health", async { assert!(server.says_ready().await) }).await;
}
