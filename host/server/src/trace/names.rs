//! Signals by name, as a trace and tools write them: the contract's names, with the parameter in brackets.

use tokenrouter_core::signal::Signal;

/// `entropy`, `top-k-logits(20)`, `head-score(r2r)`, …
pub fn signal_name(signal: &Signal) -> String {
    match signal {
        Signal::Entropy => "entropy".to_owned(),
        Signal::EntropyNormalised => "entropy-normalised".to_owned(),
        Signal::TopKEntropy(k) => format!("top-k-entropy({k})"),
        Signal::MaxProbability => "max-probability".to_owned(),
        Signal::TopKLogits(k) => format!("top-k-logits({k})"),
        Signal::TopKProbabilities(k) => format!("top-k-probabilities({k})"),
        Signal::HeadScore(name) => format!("head-score({name})"),
        Signal::Uniform(number) => format!("uniform({number})"),
        Signal::Position => "position".to_owned(),
        Signal::Newlines => "newlines".to_owned(),
    }
}

/// The signal of a name; `None` if there is none.
pub fn parse_signal(text: &str) -> Option<Signal> {
    let (name, parameter) = match text.split_once('(') {
        Some((name, rest)) => (name, rest.strip_suffix(')')?),
        None => (text, ""),
    };
    let number = || parameter.parse().ok();
    Some(match name {
        "top-k-entropy" => Signal::TopKEntropy(number()?),
        "top-k-logits" => Signal::TopKLogits(number()?),
        "top-k-probabilities" => Signal::TopKProbabilities(number()?),
        "head-score" => Signal::HeadScore(parameter.to_owned()),
        "uniform" => Signal::Uniform(number()?),
        _ if !parameter.is_empty() => return None,
        "entropy" => Signal::Entropy,
        "entropy-normalised" => Signal::EntropyNormalised,
        "max-probability" => Signal::MaxProbability,
        "position" => Signal::Position,
        "newlines" => Signal::Newlines,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_is_read_as_it_is_written() {
        for signal in [
            Signal::Entropy,
            Signal::EntropyNormalised,
            Signal::TopKEntropy(5),
            Signal::MaxProbability,
            Signal::TopKLogits(20),
            Signal::TopKProbabilities(4),
            Signal::HeadScore("r2r (new)".to_owned()),
            Signal::Uniform(0),
            Signal::Position,
            Signal::Newlines,
        ] {
            assert_eq!(parse_signal(&signal_name(&signal)), Some(signal));
        }
        for text in [
            "",
            "entropy(2)",
            "top-k-logits",
            "top-k-logits(x)",
            "uniform(1",
            "surprise",
        ] {
            assert_eq!(parse_signal(text), None, "{text}");
        }
    }
}
