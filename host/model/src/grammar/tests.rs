//! Random walks through grammars: whatever the masks allow leads to text of the format, and nothing else is allowed.

use serde_json::{Map, Value, json};
use tokenrouter_core::TokenId;
use tokenrouter_core::draw::{Purpose, bits};

use super::{Format, Grammar, GrammarCompiler, GrammarError, Progress};
use crate::text::Tokenizer;

const EOS: TokenId = 0;

/// A tokenizer of single characters and some longer tokens, by hand: no bytes, no merges to encode with.
fn tokenizer(characters: &str, longer: &[&str]) -> Tokenizer {
    let tokens = characters
        .chars()
        .map(String::from)
        .chain(longer.iter().map(|&token| token.to_owned()));
    let mut vocabulary = Map::from_iter([("<eos>".to_owned(), json!(EOS))]);
    for token in tokens {
        let id = vocabulary.len();
        vocabulary.entry(token).or_insert(json!(id));
    }
    let file = json!({
        "version": "1.0",
        "added_tokens": [{"id": EOS, "content": "<eos>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true}],
        "decoder": {"type": "Fuse"},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    });
    Tokenizer::from_bytes(file.to_string().as_bytes(), None, &[EOS]).unwrap()
}

fn json_tokenizer() -> Tokenizer {
    let printable: String = (' '..='~').chain(['\n', 'é', '😀']).collect();
    tokenizer(
        &printable,
        &[
            "{\"", "\":", "\": ", "\",\"", "\"}", "},{", "[]", "true", "null", "  ", "\n  ", "ab\"", "12",
        ],
    )
}

fn compiler(tokenizer: &Tokenizer) -> GrammarCompiler {
    GrammarCompiler::new(tokenizer, &[EOS]).unwrap()
}

/// Draws tokens evenly from those allowed, until the answer ends or has `tokens_max`. An answer that ends is returned.
fn walk(tokenizer: &Tokenizer, grammar: &Grammar, seed: u64, tokens_max: usize) -> Option<String> {
    let mut grammar = grammar.clone();
    let mut answer = Vec::new();
    while answer.len() < tokens_max {
        let count = grammar.allowed().count();
        assert!(count > 0, "seed {seed}: nothing is allowed after {answer:?}");
        let pick = bits(seed, answer.len() as u64, Purpose::Policy(0)) % count as u64;
        let token = grammar.allowed().tokens().nth(pick as usize).unwrap();
        assert!(grammar.allowed().allows(token));
        if token == EOS {
            return Some(tokenizer.decode(&answer));
        }
        answer.push(token);
        match grammar.commit(token) {
            Ok(Progress::Open) => {}
            Ok(Progress::Complete) => return Some(tokenizer.decode(&answer)),
            Err(error) => panic!("seed {seed}: {error} after {:?}", tokenizer.decode(&answer)),
        }
    }
    None
}

/// Whether a text is as its format says.
type Fits<'a> = &'a dyn Fn(&str) -> bool;

#[test]
fn every_walk_that_ends_is_of_its_format() {
    let tokenizer = json_tokenizer();
    let compiler = compiler(&tokenizer);
    let person = json!({
        "type": "object", "additionalProperties": false, "required": ["name", "age", "tags"],
        "properties": {
            "name": {"type": "string", "maxLength": 5},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "tags": {"type": "array", "items": {"enum": ["a", "b", 3, null]}, "minItems": 1, "maxItems": 3},
            "born": {"$ref": "#/$defs/year"},
        },
        "$defs": {"year": {"type": "integer", "minimum": 1900, "maximum": 1999}},
    });
    let is_person = |value: &Value| {
        let fields = value.as_object().unwrap();
        let tags = fields["tags"].as_array().unwrap();
        fields
            .keys()
            .all(|name| ["name", "age", "tags", "born"].contains(&name.as_str()))
            && fields["name"].as_str().unwrap().chars().count() <= 5
            && fields["age"].as_u64().unwrap() <= 150
            && (1..=3).contains(&tags.len())
            && tags
                .iter()
                .all(|tag| [json!("a"), json!("b"), json!(3), json!(null)].contains(tag))
            && fields
                .get("born")
                .is_none_or(|born| (1900..=1999).contains(&born.as_u64().unwrap()))
    };
    let either = json!({"anyOf": [{"type": "boolean"}, {"type": "array", "maxItems": 2, "items": {"type": "null"}}]});
    let is_either = |value: &Value| value.is_boolean() || value.as_array().is_some_and(|items| items.len() <= 2);
    let formats: [(Format, Fits<'_>); 5] = [
        (Format::JsonSchema(person), &|text| {
            is_person(&serde_json::from_str(text).unwrap())
        }),
        (Format::JsonSchema(either), &|text| {
            is_either(&serde_json::from_str(text).unwrap())
        }),
        (
            Format::JsonObject,
            &|text| match serde_json::from_str::<Map<String, Value>>(text) {
                Ok(_) => true,
                // 1e999 is JSON, but no number of this reader's.
                Err(error) => error.to_string().starts_with("number out of range"),
            },
        ),
        (Format::Regex("(ab|c)+1[2-4]?".to_owned()), &|text| {
            let letters = text.trim_end_matches(|c| ('2'..='4').contains(&c)).strip_suffix('1');
            letters.is_some_and(|letters| letters.replace("ab", "c").chars().all(|c| c == 'c') && !letters.is_empty())
        }),
        (
            Format::Choice(vec!["yes".to_owned(), "no \"é\"\n".to_owned()]),
            &|text| ["yes", "no \"é\"\n"].contains(&text),
        ),
    ];
    for (format, is_of_it) in &formats {
        let grammar = compiler.compile(format).unwrap();
        let ended = (0..100).filter_map(|seed| Some((seed, walk(&tokenizer, &grammar, seed, 300)?)));
        let mut count = 0;
        for (seed, text) in ended {
            assert!(is_of_it(&text), "seed {seed}: {text:?} is not {format:?}");
            count += 1;
        }
        assert!(count >= 20, "{format:?}: only {count} walks of 100 ended");
    }
}

/// A candidate that is looked at and not committed changes nothing, and what is committed after it is as if it had not been.
#[test]
fn what_is_not_committed_leaves_no_trace() {
    let tokenizer = json_tokenizer();
    let grammar = compiler(&tokenizer).compile(&Format::JsonObject).unwrap();
    let mut kept = grammar.clone();
    for token in tokenizer.encode("{\"").unwrap() {
        let mut aside = kept.clone();
        for other in kept.allowed().tokens().filter(|other| *other != EOS).take(20) {
            drop(aside.clone().commit(other));
            drop(aside.commit(other));
            aside = kept.clone();
        }
        kept.commit(token).unwrap();
    }
    let mut fresh = grammar;
    for token in tokenizer.encode("{\"").unwrap() {
        fresh.commit(token).unwrap();
    }
    assert_eq!(
        kept.allowed().tokens().collect::<Vec<_>>(),
        fresh.allowed().tokens().collect::<Vec<_>>()
    );
}

/// vllm#17248 and llama.cpp#19051: such schemas crashed a server, or were passed over in silence.
#[test]
fn vllm_17248_schemas_that_are_wrong_or_not_supported_are_refused() {
    let compiler = compiler(&json_tokenizer());
    let deep = (0..100).fold(
        json!({"type": "null"}),
        |inner, _| json!({"type": "array", "items": inner, "minItems": 1}),
    );
    for schema in [
        json!([]),
        json!("object"),
        json!({"type": "objekt"}),
        json!({"type": 5}),
        json!({"type": "object", "properties": 5}),
        json!({"type": "object", "required": "name"}),
        json!({"type": "string", "pattern": "("}),
        json!({"type": "string", "pattern": 5}),
        json!({"type": "string", "minLength": -1}),
        json!({"type": "string", "minLength": 5, "maxLength": 4}),
        json!({"type": "string", "format": "no such format"}),
        json!({"type": "integer", "minimum": 5, "maximum": 4}),
        json!({"type": "integer", "minimum": "a"}),
        json!({"enum": []}),
        json!({"anyOf": []}),
        json!({"anyOf": 5}),
        json!({"$ref": "#/$defs/missing"}),
        json!({"$ref": "https://example.com/schema.json"}),
        json!({"$ref": "#"}),
        json!({"not": {"type": "string"}}),
        json!({"type": "object", "dependentRequired": {"a": ["b"]}}),
        json!({"type": "array", "uniqueItems": true}),
        json!({"type": "object", "x-guidance": {"lenient": true}, "not": {}}),
        json!({"type": "string", "description": "x".repeat(300_000)}),
    ] {
        match compiler.compile(&Format::JsonSchema(schema.clone())) {
            Err(GrammarError::Invalid(what)) => assert!(!what.is_empty() && !what.contains('<'), "{what:?}"),
            Err(GrammarError::TooLarge { .. } | GrammarError::DeadEnd) => {}
            other => panic!("{schema}: {other:?}"),
        }
    }
    // Deep, but nothing is wrong with it.
    assert!(compiler.compile(&Format::JsonSchema(deep)).is_ok());
    for expression in ["(", "(?=a)b", "\\"] {
        let compiled = compiler.compile(&Format::Regex(expression.to_owned()));
        assert!(compiled.is_err(), "{expression}: {compiled:?}");
    }
    for choices in [vec![], vec![String::new()], vec!["a".to_owned(), String::new()]] {
        assert!(compiler.compile(&Format::Choice(choices)).is_err());
    }
}

/// Formats that the vocabulary has no characters for: at the beginning, or further on.
#[test]
fn what_the_vocabulary_cannot_write_is_an_error_and_not_unconstrained() {
    let digits = tokenizer("0123456789+-", &[]);
    let compiler = compiler(&digits);
    let error = compiler.compile(&Format::JsonObject).unwrap_err();
    assert_eq!(error, GrammarError::DeadEnd);
    let mut grammar = compiler.compile(&Format::Regex("[0-9]x".to_owned())).unwrap();
    let five = digits.token_id("5").unwrap();
    assert_eq!(grammar.commit(five), Err(GrammarError::DeadEnd));
}

/// The token that ends answers is allowed exactly where the format may end.
#[test]
fn an_answer_may_end_only_where_its_format_does() {
    let digits = tokenizer("0123456789", &["12", "345"]);
    let compiler = compiler(&digits);
    let mut grammar = compiler.compile(&Format::Regex("[0-9]{3,4}".to_owned())).unwrap();
    for (token, may_end) in [("12", false), ("3", true)] {
        assert!(!grammar.allowed().allows(EOS));
        assert_eq!(grammar.commit(digits.token_id(token).unwrap()), Ok(Progress::Open));
        assert_eq!(grammar.allowed().allows(EOS), may_end);
    }
    assert!(!grammar.allowed().allows(digits.token_id("12").unwrap()), "five digits");
    assert_eq!(grammar.commit(digits.token_id("4").unwrap()), Ok(Progress::Complete));
}
