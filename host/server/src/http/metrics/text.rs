//! Prometheus' text format, version 0.0.4.

use std::fmt::Write as _;

use tokenrouter_engine::stats::HistogramStats;

/// What a metric's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A count that only grows.
    Counter,
    /// A number that comes and goes.
    Gauge,
    /// A distribution.
    Histogram,
}

/// A metric: what it is called, what it means, and how it is read from a view of what is counted.
pub(super) struct Metric<View> {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) help: &'static str,
    pub(super) read: fn(&View) -> Reading,
}

/// A metric's value at a moment.
pub(super) enum Reading {
    Count(u64),
    Number(f64),
    /// Several counts that differ in one more label.
    By(&'static str, Vec<(String, u64)>),
    Histogram {
        stats: HistogramStats,
        /// What a value of 1 is in the metric's unit.
        unit: f64,
    },
}

/// A text that grows.
#[derive(Default)]
pub(super) struct Exposition(String);

impl Exposition {
    /// Begins a metric; its readings follow.
    pub(super) fn family<View>(&mut self, metric: &Metric<View>) {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let Metric { name, help, .. } = metric;
        self.line(format_args!("# HELP {name} {}", escaped(help, false)));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    pub(super) fn reading<View>(&mut self, metric: &Metric<View>, labels: &[(&str, &str)], reading: &Reading) {
        let (name, labels) = (metric.name, written(labels));
        match reading {
            Reading::Count(count) => self.line(format_args!("{name}{{{labels}}} {count}")),
            Reading::Number(number) => self.line(format_args!("{name}{{{labels}}} {number}")),
            Reading::By(label, counts) => {
                for (value, count) in counts {
                    let value = escaped(value, true);
                    self.line(format_args!("{name}{{{labels},{label}=\"{value}\"}} {count}"));
                }
            }
            Reading::Histogram { stats, unit } => self.histogram(name, &labels, stats, *unit),
        }
    }

    fn histogram(&mut self, name: &str, labels: &str, stats: &HistogramStats, unit: f64) {
        let mut total = 0;
        for (bound, count) in stats.bounds.iter().zip(&stats.counts) {
            total += count;
            let bound = in_unit(*bound, unit);
            self.line(format_args!("{name}_bucket{{{labels},le=\"{bound}\"}} {total}"));
        }
        let total = stats.count();
        self.line(format_args!("{name}_bucket{{{labels},le=\"+Inf\"}} {total}"));
        self.line(format_args!("{name}_sum{{{labels}}} {}", in_unit(stats.sum, unit)));
        self.line(format_args!("{name}_count{{{labels}}} {total}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing into a text cannot fail.
        let _ = writeln!(self.0, "{line}");
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

/// Divided rather than multiplied where that is exact: 0.00025, not 0.00024999999999999995.
fn in_unit(value: u64, unit: f64) -> f64 {
    value as f64 / (1.0 / unit).round()
}

fn written(labels: &[(&str, &str)]) -> String {
    let written: Vec<String> = labels
        .iter()
        .map(|(label, value)| format!("{label}=\"{}\"", escaped(value, true)))
        .collect();
    written.join(",")
}

/// Help and values of labels have different rules only for quotes.
fn escaped(text: &str, quotes: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quotes { text.replace('"', "\\\"") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRIC: Metric<Reading> = Metric {
        name: "m",
        kind: Kind::Counter,
        help: "a \\ and a \"quote\"\nsecond",
        read: |_| Reading::Count(0),
    };

    fn text(reading: &Reading) -> String {
        let mut out = Exposition::default();
        out.reading(&METRIC, &[("a", "x\"\\\n")], reading);
        out.finish()
    }

    #[test]
    fn texts_are_escaped() {
        let mut out = Exposition::default();
        out.family(&METRIC);
        assert_eq!(
            out.finish(),
            "# HELP m a \\\\ and a \"quote\"\\nsecond\n# TYPE m counter\n"
        );
        assert_eq!(text(&Reading::Count(3)), "m{a=\"x\\\"\\\\\\n\"} 3\n");
        assert_eq!(
            text(&Reading::By("b", vec![("y".into(), 1)])),
            "m{a=\"x\\\"\\\\\\n\",b=\"y\"} 1\n"
        );
    }

    #[test]
    fn buckets_add_up_and_microseconds_become_seconds() {
        let stats = HistogramStats {
            bounds: &[250, 1_000_000],
            counts: vec![2, 1, 4],
            sum: 9_000_123,
        };
        let mut out = Exposition::default();
        out.reading(&METRIC, &[("a", "b")], &Reading::Histogram { stats, unit: 1e-6 });
        let expected = "m_bucket{a=\"b\",le=\"0.00025\"} 2\nm_bucket{a=\"b\",le=\"1\"} 3\nm_bucket{a=\"b\",le=\"+Inf\"} 7\n\
                        m_sum{a=\"b\"} 9.000123\nm_count{a=\"b\"} 7\n";
        assert_eq!(out.finish(), expected);
    }
}
