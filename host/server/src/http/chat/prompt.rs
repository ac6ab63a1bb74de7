//! From the fields of a conversation to the tokens that a model goes on from.

use serde_json::{Map, Value};
use tokenrouter_core::TokenId;
use tokenrouter_model::text::{ChatTemplate, Conversation};

use super::messages;
use crate::http::answer::{Fields, Served};
use crate::http::{ApiError, app};

/// What a deployment without a template says.
const NO_TEMPLATE: &str = "cannot be served: no model of this deployment has a chat template; put chat_template.jinja into a \
                           model's folder, or name a file as chat_template in the deployment file";

/// The tokens of `messages`, as the template writes them with `add_generation_prompt`, `continue_final_message`,
/// `chat_template_kwargs` and `reasoning_effort`.
pub(in crate::http) fn tokens(served: Served<'_>, fields: &Fields<'_>) -> Result<Vec<TokenId>, ApiError> {
    let Some(template) = served.template else {
        return Err(fields.refuse("messages", NO_TEMPLATE));
    };
    let messages = messages::read(fields, template.mentions("developer"))?;
    let variables = variables(fields, template)?;
    let continues = fields.boolean("continue_final_message")?.unwrap_or(false);
    let prompted = fields.boolean("add_generation_prompt")?.unwrap_or(!continues);
    if continues && prompted {
        let sentence = "cannot be combined with add_generation_prompt: the last message would be over and go on";
        return Err(fields.refuse("continue_final_message", sentence));
    }
    let conversation = Conversation {
        messages: &messages,
        add_generation_prompt: prompted,
        continue_final_message: continues,
        variables: &variables,
        now_s: i64::try_from(app::now_s()).unwrap_or(i64::MAX),
    };
    // Templates write the token that a prompt begins with themselves.
    let begin = fields.boolean("add_special_tokens")?.unwrap_or(false);
    let wrong = |what: String| ApiError::field("messages", format!("messages: {what}"));
    let rendered = template
        .render(served.tokenizer, &conversation)
        .map_err(|error| wrong(error.to_string()))?;
    served
        .tokenizer
        .encode_rendered(&rendered, begin)
        .map_err(|error| wrong(error.to_string()))
}

/// What the client gives the template. A variable that the template does not have would change nothing, so it is refused.
fn variables(fields: &Fields<'_>, template: &ChatTemplate) -> Result<Map<String, Value>, ApiError> {
    let mut variables = Map::new();
    if let Some(given) = fields.object("chat_template_kwargs")? {
        for name in given.names() {
            let Some(value) = given.get(name) else { continue };
            if ChatTemplate::RESERVED.contains(&name) {
                return Err(given.refuse(name, "is set by the server and cannot be given"));
            }
            check_mentioned(&given, name, template)?;
            variables.insert(name.to_owned(), value.clone());
        }
    }
    if let Some(effort) = fields.text("reasoning_effort")? {
        check_mentioned(fields, "reasoning_effort", template)?;
        variables.insert("reasoning_effort".to_owned(), effort.into());
    }
    Ok(variables)
}

fn check_mentioned(fields: &Fields<'_>, name: &str, template: &ChatTemplate) -> Result<(), ApiError> {
    if template.mentions(name) {
        return Ok(());
    }
    let sentence = format!(
        "would change nothing: the chat template {} does not use it",
        template.origin()
    );
    Err(fields.refuse(name, &sentence))
}
