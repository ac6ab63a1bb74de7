//! Decoding ahead: while another model decides about a position, the model that asked writes on as if the answer were its own
//! candidate (*optimistic handoff*).
//!
//! The request is at the model that decides, as after any handoff: it alone is the truth. What stays behind is a *draft*: the
//! tokens assumed so far, with the policy's state behind each. Every further position is also told to the request, so that
//! one step of the deciding model can settle several. It confirms a position if it writes the assumed token and the policy hands
//! back at once with the assumed state; at the first that it does not confirm, all that was assumed behind it is dropped.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use crate::ids::{ModelIndex, RequestId, TokenId};
use crate::policy::PolicyState;
use crate::request::{Answer, GenerationId, Request, SeatIndex};

/// Whether a model writes on while another decides. The answer is the same, token for token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Optimistic {
    /// It waits.
    #[default]
    Off,
    /// It writes at most so many tokens behind its first unsettled candidate.
    Window(u32),
    /// As far as the measured agreement of the models makes it worth while.
    Auto,
}

impl Optimistic {
    /// Most positions that are assumed of one request at a time: the first, and those behind it.
    pub(crate) fn entries_max(self) -> usize {
        let window = match self {
            Self::Off => return 0,
            Self::Window(tokens) => tokens,
            Self::Auto => crate::limits::AHEAD_TOKENS_MAX,
        };
        window as usize + 1
    }
}

impl fmt::Display for Optimistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Window(tokens) => write!(f, "window:{tokens}"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

/// A text that is no [`Optimistic`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotOptimistic(String);

impl fmt::Display for NotOptimistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" is no setting of optimistic handoff; say \"off\", \"auto\", or \"window:K\" with K tokens, 1 to {}",
            self.0,
            crate::limits::AHEAD_TOKENS_MAX
        )
    }
}

impl std::error::Error for NotOptimistic {}

impl FromStr for Optimistic {
    type Err = NotOptimistic;

    fn from_str(text: &str) -> Result<Self, NotOptimistic> {
        let window = || text.strip_prefix("window:")?.parse().ok();
        match text {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            _ => window()
                .filter(|tokens| (1..=crate::limits::AHEAD_TOKENS_MAX).contains(tokens))
                .map(Self::Window)
                .ok_or_else(|| NotOptimistic(text.to_owned())),
        }
    }
}

/// The policy's states if the model that is asked hands back at once and leaves its state as it came: what its `receive`
/// makes of the parcel there, and what `receive` makes of the returning parcel here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreseen {
    /// At the model that is asked.
    pub there: PolicyState,
    /// Back at the model that asks.
    pub back: PolicyState,
}

/// One position that is assumed, not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumed {
    /// The token that is assumed to stand there.
    pub token: TokenId,
    /// The policy's state with which the other model is asked about it; `None`: the writer's own token, which stands if all
    /// before it does.
    pub asked: Option<PolicyState>,
    /// The policy's state behind it.
    pub after: PolicyState,
}

/// What it brings and costs to settle several positions in one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SettlingTerms {
    /// How likely a position is to be confirmed.
    pub(crate) agreement: f32,
    /// What one token more takes from all requests of the step, over what a request gains that need not wait for another step.
    pub(crate) token_cost: f32,
}

/// What a request knows of its draft: the assumed positions behind its committed tokens. Empty but for a request
/// that is being settled; the first is then one that is asked about.
#[derive(Debug, Default)]
pub(crate) struct Suffix {
    /// The model that writes ahead.
    pub(crate) writer: Option<ModelIndex>,
    pub(crate) entries: VecDeque<Assumed>,
    /// When it was settled last, and how long the sequence was then.
    pub(crate) settled: Option<(u64, u32)>,
}

impl Suffix {
    /// Forgets all that is assumed, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.writer = None;
        self.entries.clear();
    }

    /// How many assumed tokens are worth feeding, at most `most`, so that the positions behind them are settled in the
    /// same step. It saves a step if all before such a position are confirmed, and else the tokens up to it were fed for nothing.
    pub(crate) fn tokens_to_feed(&self, most: usize, terms: SettlingTerms) -> usize {
        let (mut tokens, mut chance) = (0, 1.0);
        for (index, entry) in self.entries.iter().enumerate().skip(1).take(most) {
            if entry.asked.is_some() {
                chance *= terms.agreement;
                if chance < (1.0 - chance) * (index - tokens) as f32 * terms.token_cost {
                    break;
                }
                tokens = index;
            }
        }
        tokens
    }

    /// How likely what is being written behind the last entry is to be of use.
    pub(crate) fn chance(&self, agreement: f32) -> f32 {
        let asked = self.entries.iter().filter(|entry| entry.asked.is_some()).count();
        agreement.powi(asked as i32)
    }
}

/// What a model holds of a request that it writes ahead for.
#[derive(Debug)]
pub(crate) struct Draft<A: Answer> {
    pub(crate) request: RequestId,
    pub(crate) seed: u64,
    pub(crate) generation: Option<GenerationId>,
    pub(crate) ahead: A::Ahead,
    pub(crate) seat: SeatIndex,
    /// The model that decides.
    pub(crate) settler: ModelIndex,
    /// The policy's state behind the last entry.
    pub(crate) state: PolicyState,
    /// Position of the first entry: so long is what is known to be committed.
    pub(crate) start: u32,
    pub(crate) entries: VecDeque<Assumed>,
    /// Entries that are asked about.
    pub(crate) unsettled: u32,
    /// Moves up to this position have been counted.
    pub(crate) counted: u32,
    pub(crate) length_max: u32,
    /// The next position cannot be assumed: its row has to be run again when all before it is settled.
    pub(crate) blocked: bool,
    /// In the step that is out.
    pub(crate) running: bool,
    /// As of the request: running mean of leaving this model.
    pub(crate) leaving: Option<f32>,
}

impl<A: Answer> Draft<A> {
    /// The draft of a request that leaves with `first`, a position that is asked about. `entries` is memory to use.
    pub(crate) fn new(
        request: &Request<A>,
        ahead: A::Ahead,
        place: (SeatIndex, ModelIndex),
        first: Assumed,
        mut entries: VecDeque<Assumed>,
    ) -> Self {
        let start = request.tokens().len() as u32;
        entries.clear();
        entries.push_back(first);
        Self {
            request: request.id,
            seed: request.seed,
            generation: request.generation,
            ahead,
            seat: place.0,
            settler: place.1,
            state: first.after,
            start,
            entries,
            unsettled: 1,
            // Its move is a real one.
            counted: start + 1,
            length_max: request.length_max(),
            blocked: false,
            running: false,
            leaving: None,
        }
    }

    /// The position behind the last entry.
    pub(crate) fn end(&self) -> u32 {
        self.start + self.entries.len() as u32
    }

    pub(crate) fn push(&mut self, entry: Assumed) {
        self.unsettled += u32::from(entry.asked.is_some());
        self.state = entry.after;
        self.entries.push_back(entry);
    }

    /// The first entry is settled.
    pub(crate) fn pop(&mut self) -> Option<Assumed> {
        let entry = self.entries.pop_front()?;
        self.start += 1;
        self.unsettled -= u32::from(entry.asked.is_some());
        Some(entry)
    }
}

/// What has come of decoding ahead at one model, all told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AheadCounts {
    /// Tokens written ahead here.
    pub written: u64,
    /// Of those, how many were dropped, because a position before them was not confirmed.
    pub dropped: u64,
    /// Positions that other models asked this one about and that had been written past: how many were settled.
    pub settled: u64,
    /// Of those, how many were confirmed.
    pub confirmed: u64,
    /// Steps that settled at least one.
    pub settling_steps: u64,
}

impl std::ops::Add for AheadCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            written: self.written + other.written,
            dropped: self.dropped + other.dropped,
            settled: self.settled + other.settled,
            confirmed: self.confirmed + other.confirmed,
            settling_steps: self.settling_steps + other.settling_steps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_they_are_written() {
        for setting in [Optimistic::Off, Optimistic::Auto, Optimistic::Window(4)] {
            assert_eq!(setting.to_string().parse(), Ok(setting));
        }
        for wrong in [
            "",
            "on",
            "window",
            "window:",
            "window:0",
            "window:-1",
            "window:1000",
            "window:4 ",
        ] {
            let error = wrong.parse::<Optimistic>().unwrap_err().to_string();
            assert!(error.contains(&format!("\"{wrong}\"")), "{error}");
        }
    }
}
