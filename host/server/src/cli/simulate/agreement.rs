//! `--agreement`: how often the models of a simulation agree, as a number or as it was recorded.

use std::path::PathBuf;
use std::str::FromStr;

use tokenrouter_host::trace::Trace;
use tokenrouter_planner::sim::Agreement;

/// What was written; a trace is read when it is needed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AgreementInput {
    Share(f64),
    Trace(PathBuf),
}

impl FromStr for AgreementInput {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("trace:") {
            Some("") => Err("trace takes a file, as in trace:trace.jsonl".to_owned()),
            Some(path) => Ok(Self::Trace(PathBuf::from(path))),
            None => match text.parse() {
                Ok(share) if (0.0..=1.0).contains(&share) => Ok(Self::Share(share)),
                _ => Err(format!(
                    "\"{text}\" is no agreement; write a probability from 0 to 1, or trace:FILE"
                )),
            },
        }
    }
}

impl AgreementInput {
    /// Where simulated models agree.
    ///
    /// # Errors
    /// A trace that cannot be read, or in which no model was asked for another's token.
    pub(super) fn load(&self) -> anyhow::Result<Agreement> {
        let path = match self {
            Self::Share(share) => return Ok(Agreement::Constant(*share)),
            Self::Trace(path) => path,
        };
        let agrees = Trace::read(path)?.agreement();
        anyhow::ensure!(
            !agrees.is_empty(),
            "--agreement trace:{}: no request of it was handed over without its candidate, so it does not say how often models agree",
            path.display()
        );
        Ok(Agreement::Recorded(agrees.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreement_is_a_share_or_a_trace() {
        assert_eq!("0.7".parse(), Ok(AgreementInput::Share(0.7)));
        assert_eq!("trace:a:b.jsonl".parse(), Ok(AgreementInput::Trace("a:b.jsonl".into())));
        for wrong in ["1.1", "-0.1", "NaN", "trace:", "often"] {
            assert!(wrong.parse::<AgreementInput>().is_err(), "{wrong}");
        }
    }
}
