//! What chooses the model, and the options that each way has.

use tokenrouter_sdk::prelude::*;

/// Option `mode`.
pub const MODE: Choice = Choice {
    name: "mode",
    summary: "what chooses the model: a draw (share), a score sent with the request (score), or a head at the prompt's \
              end (head)",
    default: "share",
    choices: &["share", "score", "head"],
    per_request: false,
};

/// Option `share`.
pub const SHARE: Number = Number {
    name: "share",
    summary: "with mode share: probability that the large model answers, 0 to 1",
    default: 0.5,
    min: 0.0,
    max: 1.0,
    per_request: true,
};

/// Option `threshold`.
pub const THRESHOLD: Number = Number {
    name: "threshold",
    summary: "with modes score and head: score from which the large model answers, 0 to 1; calibrate it to the share \
              you want",
    default: 0.5,
    min: 0.0,
    max: 1.0,
    per_request: true,
};

/// Option `score`.
pub const SCORE: Number = Number {
    name: "score",
    summary: "with mode score, in each request: how much the prompt needs the large model, 0 to 1",
    default: 0.0,
    min: 0.0,
    max: 1.0,
    per_request: true,
};

/// Option `head`.
pub const HEAD: Text = Text {
    name: "head",
    summary: "with mode head: name of the head that scores how much the prompt needs the large model",
    default: "request-level",
    per_request: false,
};

/// What chooses the model.
pub enum Mode {
    /// A draw: the large model's share.
    Share(f64),
    /// The client's score reaches the threshold.
    Score(Threshold),
    /// A head's score reaches the threshold.
    Head(Threshold),
}

impl Mode {
    /// From the options.
    ///
    /// # Errors
    /// If an option is given that the mode has no use for, or a score for all requests.
    pub fn read(options: &Options) -> Result<Self, String> {
        options.only_for(&SHARE, &MODE, &["share"])?;
        options.only_for(&THRESHOLD, &MODE, &["score", "head"])?;
        options.only_for(&HEAD, &MODE, &["head"])?;
        if options.given(&SCORE).is_some() {
            return Err("option \"score\" belongs to a request, not to the configuration".to_owned());
        }
        Ok(match options.get(&MODE) {
            "score" => Self::Score(Threshold::read(&THRESHOLD, options)),
            "head" => Self::Head(Threshold::read(&THRESHOLD, options)),
            _ => Self::Share(options.get(&SHARE)),
        })
    }

    /// Refuses options of a request that this mode has no use for.
    ///
    /// # Errors
    /// Names the option and the mode.
    pub fn check_request(&self, options: &Options) -> Result<(), String> {
        let (mode, used) = match self {
            Self::Share(_) => ("share", [true, false, false]),
            Self::Score(_) => ("score", [false, true, true]),
            Self::Head(_) => ("head", [false, true, false]),
        };
        for (option, used) in [&SHARE, &THRESHOLD, &SCORE].into_iter().zip(used) {
            if !used && options.given(option).is_some() {
                return Err(format!(
                    "option \"{}\" has no use here: the policy's mode is \"{mode}\"",
                    option.name
                ));
            }
        }
        Ok(())
    }
}
