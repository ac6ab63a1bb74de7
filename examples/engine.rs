//! The engine in a program of one's own, without HTTP: load the built-in deployment, submit one prompt, and see every token
//! with the model that wrote it.
//!
//!     cargo run --release --example engine [PROMPT]
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use anyhow::{Context as _, bail};
use tokenrouter_engine::stream::Event;
use tokenrouter_engine::{Engine, Finish, Job};
use tokenrouter_host::deployment::DeploymentFile;
use tokenrouter_model::Sampling;

fn main() -> anyhow::Result<()> {
    let prompt = std::env::args().nth(1).unwrap_or_else(|| "23*03-98-37*05=".to_owned());

    // A deployment of your own: DeploymentFile::read(Path::new("my.toml")).
    let deployment = DeploymentFile::built_in()?;
    let engine = Engine::start(deployment.load()?.parts)?;
    let models = engine.model_names().to_vec();

    let mut stream = engine.submit(&Job {
        prompt: engine
            .tokenizer()
            .encode_prompt(&prompt)
            .context("the prompt cannot be encoded")?,
        max_tokens: 64,
        sampling: Sampling::GREEDY,
        ..Job::default()
    })?;

    println!("{prompt}");
    let mut answer = String::new();
    // From asynchronous code: `stream.next().await`.
    while let Some(event) = stream.next_blocking() {
        match event {
            Event::Piece { text, tokens, .. } => {
                answer += &text;
                for written in tokens {
                    let token = engine.tokenizer().token_text(written.token);
                    println!("  {token:6} {}", models[written.model.index()]);
                }
            }
            Event::End(ended) => {
                if let Finish::Failed(why) = ended.finish {
                    bail!("the answer failed: {why}");
                }
                let by_model: Vec<String> = models
                    .iter()
                    .zip(&ended.tokens_by_model)
                    .map(|(model, tokens)| format!("{tokens} by {model}"))
                    .collect();
                println!("{answer}");
                println!(
                    "{} tokens: {}; {} handoffs",
                    ended.answer_tokens,
                    by_model.join(", "),
                    ended.handoffs
                );
            }
        }
    }
    Ok(())
}
