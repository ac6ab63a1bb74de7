//! The file format, written as `docs/heads.md` says and by nothing of this crate.

use std::collections::HashMap;

use safetensors::tensor::{Dtype, TensorView, serialize};
use serde_json::{Value, json};
use tokenrouter_model::heads::{Head, HeadFile, HeadTarget};

/// A file of f32 tensors with this header.
pub fn file(header: &str, tensors: &[(&str, &[usize], &[f32])]) -> Vec<u8> {
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(_, _, data)| data.iter().flat_map(|v| v.to_le_bytes()).collect())
        .collect();
    let views = tensors
        .iter()
        .zip(&bytes)
        .map(|((name, shape, _), bytes)| (*name, TensorView::new(Dtype::F32, shape.to_vec(), bytes).unwrap()));
    let metadata = HashMap::from([("tokenrouter-head".to_owned(), header.to_owned())]);
    serialize(views.collect::<Vec<_>>(), Some(metadata)).unwrap()
}

fn header() -> Value {
    json!({
        "format": 1, "kind": "linear", "model": {"hidden_size": 2}, "inputs": ["hidden"],
        "network": {"type": "mlp", "dims": []}, "trained": true, "source": "by hand",
    })
}

const WEIGHT: (&str, &[usize], &[f32]) = ("layers.0.weight", &[1, 2], &[0.5, -1.0]);
const BIAS: (&str, &[usize], &[f32]) = ("layers.0.bias", &[1], &[0.25]);
const TARGET: HeadTarget = HeadTarget {
    hidden_size: 2,
    vocabulary: 9,
};

fn refused(header: &Value, tensors: &[(&str, &[usize], &[f32])]) -> String {
    HeadFile::parse(&file(&header.to_string(), tensors), "h.safetensors")
        .unwrap_err()
        .to_string()
}

#[test]
fn a_file_written_by_hand_is_read() {
    let head = HeadFile::parse(&file(&header().to_string(), &[WEIGHT, BIAS]), "h.safetensors").unwrap();
    assert_eq!(head.parameters(), 3);
    Head::new(head, TARGET).unwrap();
}

/// Found and expected, by the name of the field.
#[test]
fn a_header_that_contradicts_itself_is_refused() {
    let classifier = json!({"type": "classifier", "dims": [4], "expansion": 4, "classes": 1, "normalize_input": false});
    for (key, value, part) in [
        ("format", json!(2), "format 2 is not supported, expected 1"),
        (
            "kind",
            json!("r3r"),
            "unknown variant `r3r`, expected one of `r2r`, `citer`, `co-llm`, `linear`, `mlp`",
        ),
        ("inputs", json!([]), "inputs is empty"),
        ("inputs", json!(["hidden", "hidden"]), "inputs names hidden twice"),
        ("inputs", json!(["text"]), "unknown variant `text`"),
        ("inputs", json!(["hidden", "logits"]), "top_logits is missing"),
        (
            "top_logits",
            json!(5),
            "top_logits is given, but inputs does not name logits",
        ),
        ("model", json!({}), "model.hidden_size is missing"),
        (
            "model",
            json!({"hidden_size": 1u64 << 60}),
            "model.hidden_size is 1152921504606846976, expected 1 to 65536",
        ),
        (
            "network",
            json!({"type": "mlp", "dims": [3]}),
            "network.activation is missing",
        ),
        (
            "network",
            json!({"type": "mlp", "dims": [3], "activation": "relu"}),
            "a head of kind linear is an mlp without",
        ),
        (
            "network",
            json!({"type": "mlp", "dims": [0], "activation": "relu"}),
            "network.dims is 0, expected 1 to 65536",
        ),
        (
            "network",
            json!({"type": "mlp", "dims": vec![1; 300]}),
            "network.dims has 300 entries, expected at most 256",
        ),
        ("network", classifier.clone(), "a head of kind linear is an mlp"),
        (
            "network",
            json!({"type": "transformer"}),
            "unknown variant `transformer`",
        ),
        ("colour", json!("red"), "unknown field `colour`"),
    ] {
        let mut header = header();
        header[key] = value;
        let error = refused(&header, &[WEIGHT, BIAS]);
        assert!(error.contains(part), "{key}: {error}, expected {part}");
        assert!(error.starts_with("h.safetensors: "), "{error} does not name the file");
    }
    let mut r2r = header();
    r2r["kind"] = json!("r2r");
    r2r["network"] = classifier;
    for (field, value, part) in [
        ("classes", json!(2), "network.classes is 2, expected 1 or 3"),
        ("expansion", json!(1000), "network.expansion is 1000, expected 1 to 64"),
        ("dims", json!([]), "network.dims is empty"),
    ] {
        let mut header = r2r.clone();
        header["network"][field] = value;
        let error = refused(&header, &[]);
        assert!(error.contains(part), "{field}: {error}");
    }
    r2r["inputs"] = json!(["token", "hidden"]);
    let error = refused(&r2r, &[]);
    assert!(
        error.contains("a classifier does not read token hidden; it reads hidden, hidden token,"),
        "{error}"
    );
}

#[test]
fn tensors_must_be_those_of_the_header_and_finite() {
    let wide: (&str, &[usize], &[f32]) = ("layers.0.weight", &[1, 3], &[0.0; 3]);
    let infinite: (&str, &[usize], &[f32]) = ("layers.0.weight", &[1, 2], &[0.0, f32::INFINITY]);
    let nan: (&str, &[usize], &[f32]) = ("layers.0.bias", &[1], &[f32::NAN]);
    let more: (&str, &[usize], &[f32]) = ("layers.1.weight", &[1, 1], &[0.0]);
    for (tensors, part) in [
        (vec![WEIGHT], "tensor \"layers.0.bias\" is missing"),
        (
            vec![wide, BIAS],
            "tensor \"layers.0.weight\" has shape [1, 3], but the configuration calls for [1, 2]",
        ),
        (
            vec![infinite, BIAS],
            "tensor \"layers.0.weight\" has inf at element 1; all weights must be finite",
        ),
        (vec![WEIGHT, nan], "tensor \"layers.0.bias\" has NaN at element 0"),
        (
            vec![WEIGHT, BIAS, more],
            "tensor \"layers.1.weight\" is not one of this head's; they are layers.0.weight, ",
        ),
    ] {
        let error = refused(&header(), &tensors);
        assert!(error.contains(part), "{error}, expected {part}");
    }
}

#[test]
fn a_file_that_is_no_head_or_cut_short_is_refused() {
    let whole = file(&header().to_string(), &[WEIGHT, BIAS]);
    for len in 0..whole.len() {
        let error = HeadFile::parse(&whole[..len], "h.safetensors").unwrap_err().to_string();
        assert!(
            error.starts_with("h.safetensors is damaged or not a safetensors file"),
            "{len}: {error}"
        );
    }
    let view = TensorView::new(Dtype::F32, vec![1], &[0; 4]).unwrap();
    let plain = serialize([("weight", view)], None).unwrap();
    let error = HeadFile::parse(&plain, "h.safetensors").unwrap_err().to_string();
    assert!(error.contains("its metadata has no \"tokenrouter-head\""), "{error}");
}

#[test]
fn a_head_for_another_model_is_refused_with_both_sizes() {
    let with = |key: &str, value: Value| {
        let mut header = header();
        header["model"][key] = value;
        HeadFile::parse(&file(&header.to_string(), &[WEIGHT, BIAS]), "h.safetensors").unwrap()
    };
    let refused = |head: HeadFile, target| Head::new(head, target).unwrap_err().to_string();
    let large = HeadTarget {
        hidden_size: 128,
        vocabulary: 9,
    };
    assert_eq!(
        refused(with("name", json!("big")), large),
        "h.safetensors: the head reads hidden states of 2 numbers, those of the model have 128 (the head was made for \"big\")"
    );
    assert_eq!(
        refused(with("vocabulary", json!(10)), TARGET),
        "h.safetensors: the head is for a vocabulary of 10 tokens, that of the model has 9"
    );
    let mut logits = header();
    logits["inputs"] = json!(["logits"]);
    logits["top_logits"] = json!(10);
    let ten: (&str, &[usize], &[f32]) = ("layers.0.weight", &[1, 10], &[0.0; 10]);
    let head = HeadFile::parse(&file(&logits.to_string(), &[ten, BIAS]), "h.safetensors").unwrap();
    assert_eq!(
        refused(head, TARGET),
        "h.safetensors: the head reads the 10 largest logits, the model has 9"
    );
}
