//! The API as an independent client library for Rust sees it: its types must take every response.

use crate::common::{Server, not_hanging};
use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use async_openai::types::chat::Prompt;
use async_openai::types::completions::{CreateCompletionRequest, CreateCompletionRequestArgs};
use futures_util::StreamExt as _;

const ANSWER: &str = "67-95=72;72-32=40;40-35=05;05-09=96;A96";

fn request() -> CreateCompletionRequest {
    CreateCompletionRequestArgs::default()
        .model("tiny")
        .prompt(Prompt::String("67-95-32-35-09=".to_owned()))
        .max_tokens(64_u32)
        .temperature(0.0)
        .build()
        .expect("a request")
}

fn client(server: &Server) -> Client<OpenAIConfig> {
    Client::with_config(
        OpenAIConfig::new()
            .with_api_base(format!("{}/v1", server.url))
            .with_api_key("none"),
    )
}

#[tokio::test]
async fn async_openai_reads_answers_streams_lists_and_errors() {
    let server = Server::start(&[]);
    let client = client(&server);
    let models = not_hanging("a list", client.models().list()).await.expect("models");
    assert!(models.data.iter().any(|model| model.id == "tiny/large"));

    let answer = not_hanging("an answer", client.completions().create(request()))
        .await
        .expect("an answer");
    assert_eq!(answer.choices[0].text, ANSWER);
    assert_eq!(answer.usage.expect("usage").completion_tokens, 40);

    let mut with_logprobs = request();
    (with_logprobs.logprobs, with_logprobs.n) = (Some(3), Some(2));
    let answer = not_hanging("logprobs", client.completions().create(with_logprobs))
        .await
        .expect("an answer");
    assert_eq!(answer.choices.len(), 2);
    let logprobs = answer.choices[1].logprobs.as_ref().expect("logprobs");
    assert_eq!((logprobs.tokens.len(), logprobs.text_offset.len()), (40, 40));

    let stream = client.completions().create_stream(request()).await.expect("a stream");
    let chunks: Vec<_> = not_hanging("a stream", stream.collect()).await;
    let text: String = chunks
        .iter()
        .flat_map(|chunk| &chunk.as_ref().expect("a chunk").choices)
        .map(|choice| choice.text.as_str())
        .collect();
    assert_eq!(text, ANSWER);

    let mut wrong = request();
    wrong.model = "gpt-4".to_owned();
    match not_hanging("an error", client.completions().create(wrong)).await {
        Err(OpenAIError::ApiError(error)) => assert!(format!("{error:?}").contains("model_not_found"), "{error:?}"),
        other => panic!("{other:?}"),
    }
}
