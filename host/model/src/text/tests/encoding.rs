//! Prompts become tokens without loss.

use serde_json::Value;

use super::fixtures::{self, CHARACTERS_JSON, Random};
use crate::text::{TextError, Tokenizer};

/// The tokenizer of the embedded models with a change.
fn changed(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut json: Value = serde_json::from_slice(CHARACTERS_JSON).unwrap();
    change(&mut json);
    json.to_string().into_bytes()
}

#[test]
fn an_unknown_character_is_named_with_its_place_and_what_would_be_known() {
    let tokenizer = fixtures::characters().ours;
    let message = tokenizer.encode("12+é3").unwrap_err().to_string();
    assert!(message.contains("character 'é' (U+00E9) at index 3"), "{message}");
    assert!(
        message.contains("knows only '0' '1' '2'") && message.ends_with("'A' '\\n' ' '"),
        "{message}"
    );
    // Of several, the first is named.
    let error = tokenizer.encode("1\n😀é").unwrap_err();
    assert!(
        matches!(
            error,
            TextError::UnknownCharacter {
                character: '😀',
                index: 2,
                ..
            }
        ),
        "{error}"
    );
}

/// A character is found at its place in the user's text although the model sees a normalised one.
#[test]
fn an_unknown_character_is_named_as_the_user_wrote_it() {
    let json = changed(|json| {
        json["normalizer"] = serde_json::json!({"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "00"}, {"type": "Lowercase"},
            {"type": "Replace", "pattern": {"String": "x"}, "content": "*"},
            {"type": "Replace", "pattern": {"String": "é"}, "content": "12"}]});
    });
    let tokenizer = Tokenizer::from_bytes(&json, None, &[]).unwrap();
    assert_eq!(tokenizer.encode("éX2").unwrap().len(), 6);
    // Places count characters of the user's text: not its bytes, nor what normalisation made of it.
    let error = tokenizer.encode("éxÉZ").unwrap_err();
    assert!(
        matches!(
            error,
            TextError::UnknownCharacter {
                character: 'Z',
                index: 3,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn every_text_is_lossless_or_refused() {
    let characters: Vec<char> = "0189+-*=;A\n é中a<".chars().collect();
    for fixture in [fixtures::characters(), fixtures::byte_level()] {
        for seed in 0..2_000 {
            let mut random = Random(seed);
            let usual = if random.below(2) == 0 { 12 } else { characters.len() };
            let text: String = (0..random.below(20)).map(|_| characters[random.below(usual)]).collect();
            match fixture.ours.encode(&text) {
                Ok(ids) => assert_eq!(fixture.ours.decode(&ids), text, "{}, seed {seed}", fixture.name),
                Err(TextError::UnknownCharacter { character, index, .. }) => {
                    assert_eq!(
                        fixture.name, "characters",
                        "seed {seed}: byte-level BPE knows every character"
                    );
                    assert_eq!(
                        text.chars()
                            .position(|c| fixture.library.token_to_id(&c.to_string()).is_none()),
                        Some(index)
                    );
                    assert_eq!(text.chars().nth(index), Some(character), "seed {seed}");
                }
                Err(error) => panic!("{}, seed {seed}: {error}", fixture.name),
            }
        }
    }
}

#[test]
fn special_tokens_in_a_text_stay_text() {
    for fixture in [fixtures::byte_level(), fixtures::llama()] {
        for token in ["<|end|>", "<|start|>", "<s>", "</s>"] {
            let ids = fixture.ours.encode(token).unwrap();
            assert!(
                ids.len() > 1 && fixture.ours.token_id(token).is_none_or(|id| !ids.contains(&id)),
                "{token}"
            );
            assert_eq!(fixture.ours.decode(&ids), token, "{}", fixture.name);
        }
    }
    // A model without the letters of the name says so.
    let error = fixtures::characters().ours.encode("<eos>").unwrap_err();
    assert!(matches!(
        error,
        TextError::UnknownCharacter {
            character: '<',
            index: 0,
            ..
        }
    ));
}

#[test]
fn bos_is_put_in_front_exactly_once() {
    // The post-processor of this one adds <s> = 1 itself.
    let llama = fixtures::llama();
    let tokenizer = Tokenizer::new(llama.library.clone(), Some(1), &[2]).unwrap();
    let prompt = tokenizer.encode_prompt("he").unwrap();
    assert_eq!(prompt, [1, llama.id("▁he")]);
    assert_eq!(tokenizer.encode("he").unwrap(), prompt[1..]);
    // This one adds nothing.
    let tokenizer = Tokenizer::from_bytes(CHARACTERS_JSON, Some(2), &[1]).unwrap();
    assert_eq!(tokenizer.encode_prompt("1").unwrap(), [2, 4]);
    assert_eq!(tokenizer.encode_prompt("").unwrap(), [2]);
    let without = Tokenizer::from_bytes(CHARACTERS_JSON, None, &[1]).unwrap();
    assert_eq!(without.encode_prompt("1").unwrap(), [4]);
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(2), &[1][..]));
}

#[test]
fn truncation_and_padding_of_the_file_do_not_touch_prompts() {
    let json = changed(|json| {
        json["truncation"] =
            serde_json::json!({"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0});
        json["padding"] = serde_json::json!({"strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": null,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>"});
    });
    let tokenizer = Tokenizer::from_bytes(&json, None, &[]).unwrap();
    assert_eq!(
        tokenizer.encode("0123456789").unwrap(),
        [3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    );
}

#[test]
fn an_id_outside_of_the_vocabulary_is_named_with_the_size() {
    // The models' logits have 64 columns; the tokenizer has 21 tokens.
    let tokenizer = fixtures::characters().ours;
    assert_eq!(tokenizer.vocabulary_size(), 21);
    tokenizer.check_ids(&[0, 20, 3]).unwrap();
    let error = tokenizer.check_ids(&[0, 21, 63]).unwrap_err();
    assert!(matches!(
        error,
        TextError::OutsideVocabulary {
            id: 21,
            index: 1,
            size: 21
        }
    ));
    assert_eq!(
        error.to_string(),
        "token id 21 at index 1 is outside of the vocabulary, which has 21 ids (0 to 20)"
    );
    assert!(tokenizer.check_ids(&[u32::MAX]).is_err());
}

#[test]
fn vocabularies_are_compared_by_id() {
    let tokenizer = fixtures::characters().ours;
    tokenizer
        .same_vocabulary(&Tokenizer::from_bytes(CHARACTERS_JSON, Some(2), &[1]).unwrap())
        .unwrap();
    let swapped = changed(|json| {
        json["model"]["vocab"]["0"] = 4.into();
        json["model"]["vocab"]["1"] = 3.into();
    });
    let message = tokenizer
        .same_vocabulary(&Tokenizer::from_bytes(&swapped, None, &[]).unwrap())
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("first at token id 3: \"0\" here, \"1\" there"),
        "{message}"
    );
    let longer = Tokenizer::from_bytes(&changed(|json| json["model"]["vocab"]["B"] = 21.into()), None, &[]).unwrap();
    let message = longer.same_vocabulary(&tokenizer).unwrap_err().to_string();
    assert!(message.contains("token id 21: \"B\" here, no token there"), "{message}");
    let message = tokenizer.same_vocabulary(&longer).unwrap_err().to_string();
    assert!(message.contains("token id 21: no token here, \"B\" there"), "{message}");
}

#[test]
fn a_tokenizer_that_cannot_be_used_is_refused_with_the_reason() {
    let reason = |json: &[u8], bos, eos: &[u32]| Tokenizer::from_bytes(json, bos, eos).unwrap_err().to_string();
    assert!(reason(CHARACTERS_JSON, Some(21), &[]).contains("beginning-of-sequence token 21"));
    assert!(reason(CHARACTERS_JSON, None, &[1, 99]).contains("end-of-sequence token 99"));
    let ctc = changed(|json| {
        json["decoder"] =
            serde_json::json!({"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": true});
    });
    assert!(reason(&ctc, None, &[]).contains("the step CTC"));
    assert!(reason(b"{}", None, &[]).contains("the tokenizer cannot be used"));
}

#[test]
fn a_tokenizer_is_shared_between_threads() {
    fn shared<T: Send + Sync + Clone + 'static>() {}
    shared::<Tokenizer>();
    shared::<crate::text::Detokenizer>();
    shared::<crate::text::StopMatcher>();
}
