//! Where the models of a trace agreed.

use super::format::StepLine;
use super::reader::{RecordedRequest, Trace};

impl Trace {
    /// For each position between the first and the last at which a request of the trace was handed over without its candidate, one
    /// request after the other: whether the model that was asked wrote just that candidate and handed back at once. Positions at which
    /// nobody was asked are as the one before them. Empty if nobody was ever asked.
    pub fn agreement(&self) -> Vec<bool> {
        let mut agrees = Vec::new();
        for request in &self.requests {
            let first = agrees.len();
            let mut start = None;
            for (position, agreed) in asked(request) {
                let start = *start.get_or_insert(position);
                let place = first + (position - start) as usize;
                let before = agrees[first..].last().copied().unwrap_or(agreed);
                agrees.resize(place.max(agrees.len()), before);
                agrees.truncate(place);
                agrees.push(agreed);
            }
        }
        agrees
    }
}

/// The positions of a request about which another model was asked, with what it did, in their order.
fn asked(request: &RecordedRequest) -> impl Iterator<Item = (u32, bool)> {
    let steps = &request.steps;
    steps.iter().enumerate().filter_map(move |(index, step)| {
        let to = step.to.filter(|&to| to != step.at && !step.keep)?;
        let answers = |other: &&StepLine| other.at == to && other.position == step.position;
        let answer = steps[index + 1..].iter().find(answers)?;
        let came_back = answer.to == Some(step.at) && answer.keep;
        Some((step.position, came_back && answer.candidate == step.candidate))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Numbers;
    use crate::trace::format::{Header, RequestLine};

    fn step(at: u32, position: u32, candidate: u32, to: Option<u32>, keep: bool) -> StepLine {
        StepLine {
            id: 0,
            at,
            position,
            candidate,
            text: None,
            asked: Numbers(Vec::new()),
            standard: Numbers(Vec::new()),
            to,
            keep,
        }
    }

    fn request(steps: Vec<StepLine>) -> RecordedRequest {
        RecordedRequest {
            request: RequestLine {
                id: 0,
                seed: 0,
                prompt: vec![1],
                max_tokens: 9,
                temperature: 0.0,
                options: Default::default(),
                generation: None,
                entry: 0,
            },
            steps,
        }
    }

    fn trace(requests: Vec<RecordedRequest>) -> Trace {
        Trace {
            header: Header {
                format: 1,
                host: String::new(),
                deployment: String::new(),
                models: Vec::new(),
                standard: Vec::new(),
            },
            generations: Vec::new(),
            requests,
            orphans: 0,
            end: None,
        }
    }

    /// Another token, and the same token by a model that goes on itself, are no agreement; positions between are as the last asked.
    #[test]
    fn agreement_is_the_same_token_and_back_at_once() {
        let first = request(vec![
            step(0, 5, 7, Some(0), true),
            step(0, 6, 8, Some(1), false),
            step(1, 6, 8, Some(0), true),
            step(0, 7, 3, Some(0), true),
            step(0, 8, 4, Some(0), true),
            step(0, 9, 2, Some(1), false),
            step(1, 9, 1, Some(0), true),
            step(0, 10, 2, Some(1), false),
            step(1, 10, 2, Some(1), true),
            step(1, 11, 6, Some(0), true),
            step(0, 12, 5, Some(1), false),
            step(1, 12, 5, Some(0), true),
        ]);
        let kept = request(vec![step(0, 1, 7, Some(1), true), step(1, 2, 7, Some(0), true)]);
        let last = request(vec![step(0, 3, 7, Some(1), false), step(1, 3, 9, Some(0), true)]);
        let agrees = trace(vec![first, kept, last]).agreement();
        assert_eq!(agrees, [true, true, true, false, false, false, true, false]);
        assert_eq!(trace(Vec::new()).agreement(), Vec::<bool>::new());
    }
}
