//! The large model's answers, and what becomes of them from another token on.

use anyhow::{Context as _, bail};
use futures_util::StreamExt as _;
use tokenrouter_core::{ModelIndex, TokenId};
use tokenrouter_engine::stream::Event;
use tokenrouter_engine::{Engine, Finish, Job, Target};

use super::Text;
use super::store::Store;
use crate::cli::measure::{Problem, tell};

/// A model that writes greedily.
pub(super) struct Writer<'a> {
    pub(super) engine: &'a Engine,
    pub(super) large: ModelIndex,
    pub(super) max_tokens: u32,
    pub(super) concurrency: usize,
    pub(super) runtime: &'a tokio::runtime::Runtime,
}

impl Writer<'_> {
    /// Answers to all problems, those of `store` first.
    pub(super) fn answers(
        &self,
        problems: &[Problem],
        (mut store, done): (Store, Vec<Vec<TokenId>>),
    ) -> anyhow::Result<Vec<Text>> {
        let prompts: Vec<Vec<TokenId>> = problems
            .iter()
            .map(|problem| self.engine.tokenizer().encode_prompt(&problem.prompt))
            .collect::<Result<_, _>>()?;
        let mut answers = done;
        answers.truncate(prompts.len());
        let first = answers.len();
        self.runtime.block_on(async {
            let mut stream = futures_util::stream::iter(&prompts[first..])
                .map(|prompt| self.write(prompt.clone(), self.max_tokens))
                .buffered(self.concurrency);
            while let Some(answer) = stream.next().await {
                let answer = answer.with_context(|| format!("prompt {}", answers.len() + 1))?;
                store.push(&answer)?;
                answers.push(answer);
                progress("answers by the large model", answers.len(), prompts.len());
            }
            anyhow::Ok(())
        })?;
        let texts = prompts.into_iter().zip(answers);
        Ok(texts.map(|(prompt, answer)| Text { prompt, answer }).collect())
    }

    /// For every text, at each position of `others` whether the answer is no longer right when it goes on from that token
    /// instead of its own; `None` where there is no other token.
    pub(super) fn rollouts(
        &self,
        problems: &[Problem],
        texts: &[Text],
        others: &[Vec<Option<TokenId>>],
        (mut store, done): (Store, Vec<Vec<bool>>),
    ) -> anyhow::Result<Vec<Vec<bool>>> {
        let mut labels = done;
        labels.truncate(texts.len());
        for index in labels.len()..texts.len() {
            let (problem, text) = (&problems[index], &texts[index]);
            let right = problem.is_right(&self.text(&text.answer));
            let Some(right) = right else {
                bail!(
                    "prompt {}: --label rollout needs the right answer of every prompt",
                    index + 1
                );
            };
            let positions = others[index].iter().enumerate();
            let label = self.runtime.block_on(
                futures_util::stream::iter(positions)
                    .map(|(position, other)| async move {
                        let Some(other) = other.filter(|_| right) else {
                            // Where the large model is wrong itself, nothing is lost.
                            return anyhow::Ok(false);
                        };
                        let mut answer = text.answer[..position].to_vec();
                        answer.push(other);
                        if !self.engine.end_tokens().contains(&other) {
                            let fed = text.prompt.iter().chain(&answer).copied().collect();
                            let room = self.max_tokens.saturating_sub(answer.len() as u32);
                            answer.extend(self.write(fed, room).await?);
                        }
                        Ok(problem.is_right(&self.text(&answer)) == Some(false))
                    })
                    .buffered(self.concurrency)
                    .collect::<Vec<_>>(),
            );
            let label: Vec<bool> = label.into_iter().collect::<anyhow::Result<_>>()?;
            store.push(&label)?;
            labels.push(label);
            progress("rollouts", labels.len(), texts.len());
        }
        Ok(labels)
    }

    async fn write(&self, prompt: Vec<TokenId>, max_tokens: u32) -> anyhow::Result<Vec<TokenId>> {
        let room = self.engine.context_max().saturating_sub(prompt.len() as u32);
        let job = Job {
            prompt,
            max_tokens: max_tokens.min(room),
            target: Target::Model(self.large),
            ..Job::default()
        };
        let mut stream = self.engine.submit(&job)?;
        let mut answer = Vec::new();
        while let Some(event) = stream.next().await {
            match event {
                Event::Piece { tokens, .. } => answer.extend(tokens.iter().map(|written| written.token)),
                Event::End(ended) => {
                    if let Finish::Failed(why) = ended.finish {
                        bail!("{why}");
                    }
                }
            }
        }
        Ok(answer)
    }

    /// The text of an answer, without what ends it.
    fn text(&self, answer: &[TokenId]) -> String {
        let ends = self.engine.end_tokens();
        let kept: Vec<TokenId> = answer.iter().copied().filter(|token| !ends.contains(token)).collect();
        self.engine.tokenizer().decode(&kept)
    }
}

/// A line at every twentieth.
pub(super) fn progress(what: &str, done: usize, all: usize) {
    if done == all || (done * 20 / all) != ((done - 1) * 20 / all) {
        tell(&format!("{what}: {done} of {all}"));
    }
}
