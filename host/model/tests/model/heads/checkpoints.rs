//! From published checkpoints to scores.

use tokenrouter_model::heads::checkpoint::Checkpoint;
use tokenrouter_model::heads::checkpoint::pickle::Value;
use tokenrouter_model::heads::convert::{ConvertOptions, convert};
use tokenrouter_model::heads::{Activation, Head, HeadFile, HeadInput, HeadKind, Network};

use super::fixtures::{Expected, converted, kind, path};

/// R2R's variants (logits; hidden; hidden and token; hidden and logits; all three; three classes; normalised or not; blocks
/// that change their width), CITER's network, Co-LLM's vector and plain networks give the scores that an independent
/// computation in f64 gives: R2R's to 1e-4, CITER's folded against unfolded, and the others, to 1e-5. Through the file, as
/// a deployment loads them.
#[test]
fn converted_checkpoints_give_the_scores_of_their_networks() {
    let expected = Expected::read();
    let rows: Vec<u32> = (0..expected.hidden.len() as u32).collect();
    assert_eq!(expected.scores.len(), 12);
    for (name, scores) in &expected.scores {
        let file = converted(name).unwrap_or_else(|error| panic!("{error}"));
        let bytes = file.to_bytes().unwrap();
        let again = HeadFile::parse(&bytes, "head.safetensors").unwrap();
        assert_eq!(again.header(), file.header());
        assert_eq!(
            again.to_bytes().unwrap(),
            bytes,
            "{name}: the same head has the same bytes"
        );
        let head = Head::new(again, expected.target()).unwrap();
        let tolerance = if kind(name) == HeadKind::R2r { 1e-4 } else { 1e-5 };
        for (found, expected) in expected.scores(&head, &rows).iter().zip(scores) {
            assert!(
                (f64::from(*found) - expected).abs() < tolerance,
                "{name}: {found}, expected {expected}"
            );
        }
    }
}

#[test]
fn a_head_knows_where_it_came_from() {
    let file = converted("r2r.pt").unwrap();
    let header = file.header();
    assert_eq!(header.threshold, Some(0.40596));
    assert!(header.trained);
    assert_eq!(header.model.name.as_deref(), Some("example/small"));
    assert_eq!(header.inputs, [HeadInput::Hidden, HeadInput::Token, HeadInput::Logits]);
    assert_eq!(
        header.network,
        Network::Classifier {
            dims: vec![16, 24, 16],
            expansion: 4,
            classes: 1,
            normalize_input: false
        }
    );
    assert!(
        header
            .source
            .contains("embeddings of candidates are those of the model it is loaded for")
    );
    assert_eq!(converted("r2r-hidden.pt").unwrap().header().threshold, None);
}

/// One list under two keys is one list, also where it is filled only after it was referred to.
#[test]
fn plain_values_are_read_as_python_shares_them() {
    let checkpoint = Checkpoint::open(&path("r2r.pt")).unwrap();
    let (pickle, root) = checkpoint.values().unwrap();
    let specific = pickle.get(root, "model_specific_args").unwrap();
    let seen = pickle.get(specific, "seen").unwrap();
    assert_eq!(
        pickle.get(pickle.get(root, "common_args").unwrap(), "input_type"),
        Some(seen)
    );
    let Value::List(items) = pickle.value(seen) else {
        panic!("{:?}", pickle.value(seen))
    };
    let texts: Vec<&Value> = items.iter().map(|id| pickle.value(*id)).collect();
    let text = |text: &str| Value::Text(text.to_owned());
    assert_eq!(texts, [&text("hidden_states"), &text("token"), &text("logits")]);
    let value = |key: &str| pickle.value(pickle.get(specific, key).unwrap());
    assert_eq!(value("epochs"), &Value::Int(10_000_000_000));
    assert_eq!(value("min_recall"), &Value::Float(0.95));
}

#[test]
fn what_is_not_supported_or_does_not_agree_is_refused_by_name() {
    let refused = |name: &str, kind: HeadKind, options: &ConvertOptions| {
        let mut checkpoint = Checkpoint::open(&path(name)).unwrap();
        convert(&mut checkpoint, kind, options).unwrap_err().to_string()
    };
    let none = ConvertOptions::default();
    let mut large = ConvertOptions::default();
    large.model.hidden_size = Some(1024);
    let mut padded = ConvertOptions::default();
    padded.model.vocabulary = Some(121);
    let gelu = ConvertOptions {
        activation: Some(Activation::Gelu),
        ..ConvertOptions::default()
    };
    for (name, kind, options, part) in [
        (
            "r2r-position.pt",
            HeadKind::R2r,
            &none,
            "init_args.use_position_embedding is true",
        ),
        (
            "r2r-window.pt",
            HeadKind::R2r,
            &none,
            "model_type \"MultiLogitsClassifier\" is not supported; supported: Logits",
        ),
        ("citer.pth", HeadKind::R2r, &none, "it has no `model_type`"),
        (
            "r2r.pt",
            HeadKind::Citer,
            &none,
            "tensor \"backbone.blocks.0.dim_change.bias\" is not one of CITER's",
        ),
        (
            "citer.pth",
            HeadKind::CoLlm,
            &none,
            "neither \"deferral.weight\" nor \"lm_head.weight\"",
        ),
        (
            "r2r.pt",
            HeadKind::R2r,
            &large,
            "hidden states of 12 numbers, those of the model have 1024",
        ),
        (
            "co-llm.pth",
            HeadKind::CoLlm,
            &large,
            "hidden states of 12 numbers, those of the model have 1024",
        ),
        // The last row of a table without a row to spare is a token's.
        (
            "co-llm-original.pth",
            HeadKind::CoLlm,
            &padded,
            "lm_head.weight has 121 rows, no more than the model's",
        ),
        (
            "mlp.pth",
            HeadKind::Linear,
            &gelu,
            "a head of kind linear is an mlp without a layer before the last",
        ),
        ("mlp.pth", HeadKind::Mlp, &none, "network.activation is missing"),
    ] {
        let error = refused(name, kind, options);
        assert!(error.contains(part), "{name} as {kind}: {error}, expected {part}");
        assert!(error.contains(name), "{error} does not name the file");
    }
}

/// Any row can be named, and is then taken from a table of any size.
#[test]
fn the_deferral_row_may_be_named() {
    let expected = Expected::read();
    let mut checkpoint = Checkpoint::open(&path("co-llm-original.pth")).unwrap();
    let mut options = ConvertOptions {
        row: Some(120),
        ..ConvertOptions::default()
    };
    options.model.vocabulary = Some(121);
    let by_row = convert(&mut checkpoint, HeadKind::CoLlm, &options).unwrap();
    assert!(by_row.header().source.contains("row 120 of 121"));
    options.model.vocabulary = None;
    let head = Head::new(
        convert(&mut checkpoint, HeadKind::CoLlm, &options).unwrap(),
        expected.target(),
    )
    .unwrap();
    let found = expected.scores(&head, &[0, 3]);
    let scores = &expected.scores["co-llm.pth"];
    assert!((f64::from(found[0]) - scores[0]).abs() < 1e-5 && (f64::from(found[1]) - scores[3]).abs() < 1e-5);
    options.row = Some(121);
    let error = convert(&mut checkpoint, HeadKind::CoLlm, &options)
        .unwrap_err()
        .to_string();
    assert!(error.contains("there is no row 121 in shape [121, 12]"), "{error}");
}
