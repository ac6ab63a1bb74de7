//! The chat template of a deployment: the file that it names, or that of the first model that has one. Models of one
//! deployment share a vocabulary, and so their special tokens.

use tokenrouter_model::Source;
use tokenrouter_model::text::{ChatTemplate, TemplateSource, Tokenizer};

use super::{DeploymentError, DeploymentFile};

impl DeploymentFile {
    /// The template, compiled; `None` if there is none.
    pub(super) fn template(&self, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>, DeploymentError> {
        let sources = self.models.iter().map(|entry| entry.resolve(&self.base));
        let sources: Vec<Source> = sources.collect::<Result<_, _>>()?;
        let source = match (&self.chat_template, sources.first()) {
            (Some(path), Some(first)) => Some(TemplateSource::of_file(&self.base.join(path), first, tokenizer)?),
            _ => (sources.iter())
                .map(|source| TemplateSource::of_model(source, tokenizer))
                .find_map(Result::transpose)
                .transpose()?,
        };
        Ok(source.map(ChatTemplate::new).transpose()?)
    }
}
