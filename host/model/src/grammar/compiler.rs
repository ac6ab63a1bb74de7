//! From a format to a grammar over one vocabulary.

use std::sync::Arc;

use llguidance::api::{GrammarInit, ParserLimits};
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv};
use llguidance::{Matcher, ParserFactory};
use tokenrouter_core::TokenId;

use super::{Format, Grammar, GrammarError, vocabulary};
use crate::text::Tokenizer;

/// Makes grammars for one vocabulary.
pub struct GrammarCompiler {
    factory: ParserFactory,
}

impl GrammarCompiler {
    /// For a tokenizer; `ends` are the tokens that end answers. Takes memory and time in proportion to the vocabulary: a
    /// fraction of a second for a large one.
    ///
    /// # Errors
    /// [`GrammarError::Failed`]: the vocabulary is beyond what the grammar library can hold.
    pub fn new(tokenizer: &Tokenizer, ends: &[TokenId]) -> Result<Self, GrammarError> {
        // Models choose how to split what a format forces into tokens, so no tokenizer has to be asked for it.
        let environment: TokEnv = Arc::new(ApproximateTokEnv::new(vocabulary::trie(tokenizer, ends)));
        let slices = llguidance::earley::SlicedBiasComputer::general_slices();
        let mut factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &slices)
            .map_err(GrammarError::failed)?;
        factory.quiet();
        *factory.limits_mut() = limits();
        Ok(Self { factory })
    }

    /// The grammar of a format, at the beginning of an answer.
    ///
    /// # Errors
    /// [`GrammarError`]: the format is wrong, not supported or too complex, or nothing of the vocabulary can begin it.
    pub fn compile(&self, format: &Format) -> Result<Grammar, GrammarError> {
        let grammar = GrammarInit::Serialized(format.grammar()?);
        let parser = self
            .factory
            .create_parser_from_init_default(grammar)
            .map_err(GrammarError::invalid)?;
        let mut matcher = Matcher::new(Ok(parser));
        if let Some(warning) = matcher.grammar_warnings().first() {
            return Err(GrammarError::invalid(warning));
        }
        Grammar::new(matcher).map_err(|error| match error {
            GrammarError::Failed(what) => GrammarError::Invalid(what),
            other => other,
        })
    }
}

/// Bounds of one grammar. They are counts of work and not times, so that they strike at the same token at any load; on a slow
/// core the whole of a step's is some 20 ms.
fn limits() -> ParserLimits {
    ParserLimits {
        // One or two kilobytes each.
        max_lexer_states: 20_000,
        max_grammar_size: 200_000,
        verbose_errors: false,
        ..ParserLimits::default()
    }
}

impl std::fmt::Debug for GrammarCompiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GrammarCompiler").finish_non_exhaustive()
    }
}
