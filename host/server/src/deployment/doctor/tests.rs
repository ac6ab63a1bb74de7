//! Broken deployments, and what is said of each.

use std::path::Path;

use tempfile::TempDir;

use super::machine::Machine;
use super::{Finding, Level, examine_on};
use crate::deployment::DeploymentFile;

const ROOMY: Machine = Machine {
    cores: 8,
    memory_bytes: Some((64 << 30, 32 << 30)),
};

/// A folder with the embedded small model as `good`, and as `bad` with one file replaced.
fn folders(file: &str, change: impl Fn(Vec<u8>) -> Vec<u8>) -> TempDir {
    let folder = TempDir::new().unwrap();
    let embedded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny/small");
    for name in ["good", "bad"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        for part in ["config.json", "tokenizer.json", "model.safetensors"] {
            let bytes = std::fs::read(embedded.join(part)).unwrap();
            let bytes = if name == "bad" && part == file {
                change(bytes)
            } else {
                bytes
            };
            std::fs::write(folder.path().join(name).join(part), bytes).unwrap();
        }
    }
    folder
}

fn replaced(from: &'static str, to: &'static str) -> impl Fn(Vec<u8>) -> Vec<u8> {
    move |bytes| {
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(from), "{from} is not in the file");
        text.replacen(from, to, 1).into_bytes()
    }
}

const PAIR: &str =
    "name = \"d\"\n[[models]]\nname = \"small\"\nsource = \"good\"\n[[models]]\nname = \"large\"\nsource = \"bad\"\n";

fn findings(base: &Path, text: &str, machine: &Machine) -> Vec<Finding> {
    examine_on(&DeploymentFile::parse(text, "d.toml", base).unwrap(), machine)
}

#[track_caller]
fn says(found: &[Finding], level: Level, about: &str, parts: &[&str]) {
    let fits = |finding: &&Finding| {
        finding.level == level && finding.about == about && parts.iter().all(|part| finding.what.contains(part))
    };
    assert!(
        found.iter().any(|finding| fits(&finding)),
        "no {level:?} of {about} with {parts:?} in {found:#?}"
    );
}

fn errors(found: &[Finding]) -> usize {
    found.iter().filter(|finding| finding.level == Level::Error).count()
}

#[test]
fn the_built_in_deployment_is_as_it_should_be() {
    let found = examine_on(&DeploymentFile::built_in().unwrap(), &ROOMY);
    let not_ok: Vec<_> = found.iter().filter(|finding| finding.level != Level::Ok).collect();
    assert!(not_ok.is_empty(), "{not_ok:#?}");
    for about in [
        "model small",
        "model large",
        "vocabulary",
        "chat template",
        "head r2r",
        "policy",
        "KV",
        "memory",
        "threads",
    ] {
        assert!(
            found.iter().any(|finding| finding.about == about),
            "nothing is said of {about}"
        );
    }
}

/// From what a file holds to what it is damaged to.
type Damage<'a> = &'a dyn Fn(Vec<u8>) -> Vec<u8>;

/// Every file of a model, damaged in the ways that downloads and edits damage them. Each is one error, at the model or what
/// is wrong between the two, and says what would be right.
#[test]
fn damaged_files_are_named_with_what_is_wrong() {
    let truncated = |bytes: Vec<u8>| bytes[..bytes.len() - 100].to_vec();
    let empty = |_: Vec<u8>| Vec::new();
    let page = |_: Vec<u8>| b"<!DOCTYPE html><html>".to_vec();
    let table: &[(&str, Damage<'_>, &str, &[&str])] = &[
        (
            "model.safetensors",
            &truncated,
            "model large",
            &["bad/model.safetensors is damaged"],
        ),
        ("model.safetensors", &empty, "model large", &["bad/model.safetensors"]),
        (
            "model.safetensors",
            &page,
            "model large",
            &["bad/model.safetensors is damaged"],
        ),
        (
            "config.json",
            &replaced("\"intermediate_size\": ", "\"intermediate_size\": 1"),
            "model large",
            &["gate_proj.weight", "has shape", "the configuration calls for"],
        ),
        (
            "config.json",
            &replaced("\"qwen3\"", "\"mamba\""),
            "model large",
            &["bad/config.json", "\"mamba\" is not supported", "qwen3, qwen2, llama"],
        ),
        (
            "config.json",
            &page,
            "model large",
            &["bad/config.json is not the JSON expected"],
        ),
        ("tokenizer.json", &truncated, "vocabulary", &["model \"large\""]),
        (
            "tokenizer.json",
            &replaced("\"7\"", "\"x\""),
            "vocabulary",
            &["models \"small\" and \"large\" cannot work together"],
        ),
    ];
    for (file, change, about, parts) in table {
        let folder = folders(file, change);
        let found = findings(folder.path(), PAIR, &ROOMY);
        says(&found, Level::Error, about, parts);
        assert_eq!(errors(&found), 1, "{file}: {found:#?}");
        says(&found, Level::Ok, "model small", &["weights whole"]);
    }
}

#[test]
fn a_missing_shard_is_named() {
    let folder = folders("", |bytes| bytes);
    let bad = folder.path().join("bad");
    std::fs::remove_file(bad.join("model.safetensors")).unwrap();
    let index = "{\"weight_map\": {\"model.norm.weight\": \"model-00001-of-00001.safetensors\"}}";
    std::fs::write(bad.join("model.safetensors.index.json"), index).unwrap();
    let found = findings(folder.path(), PAIR, &ROOMY);
    says(
        &found,
        Level::Error,
        "model large",
        &["cannot read", "bad/model-00001-of-00001.safetensors"],
    );
}

#[test]
fn what_a_model_cannot_do_is_said() {
    let folder = folders("config.json", replaced("\"vocab_size\": 64", "\"vocab_size\": 20"));
    let found = findings(folder.path(), PAIR, &ROOMY);
    says(
        &found,
        Level::Error,
        "model large",
        &["its table has 20 rows", "tokenizer.json"],
    );
    says(
        &found,
        Level::Warn,
        "chat template",
        &["/v1/chat/completions is refused", "chat_template"],
    );

    let missing = PAIR.replace("\"bad\"", "\"nowhere\"");
    let found = findings(folder.path(), &missing, &ROOMY);
    says(&found, Level::Error, "model large", &["there is no folder", "nowhere"]);
    says(&found, Level::Warn, "policy", &["not tried"]);

    let gguf = PAIR.replace("\"bad\"", "\"bad/config.json.gguf\"");
    let found = findings(folder.path(), &gguf, &ROOMY);
    says(
        &found,
        Level::Error,
        "model large",
        &["cannot read", "config.json.gguf"],
    );
}

/// Heads, policy and template, on models that are whole.
#[test]
fn parts_that_do_not_fit_the_models_are_said() {
    let folder = folders("", |bytes| bytes);
    std::fs::write(folder.path().join("broken.jinja"), "{% for x in %}").unwrap();
    let table: &[(&str, &str, &[&str])] = &[
        (
            "[policy]\nplugin = \"r-stich\"\n",
            "policy",
            &["there is no policy \"r-stich\"", "r-stitch"],
        ),
        (
            "[policy]\nplugin = \"r-stitch\"\noptions = { treshold = 1 }\n",
            "policy",
            &["unknown option `treshold`"],
        ),
        (
            "[policy]\nplugin = \"citer\"\n",
            "policy",
            &["head \"citer\" is not loaded", "[[heads]]"],
        ),
        (
            "[[heads]]\nname = \"r2r\"\nmodel = \"small\"\nfile = \"good/model.safetensors\"\n",
            "head r2r",
            &["not a head's file", "heads convert"],
        ),
        (
            "[[heads]]\nname = \"r2r\"\nmodel = \"small\"\nfile = \"r2r.safetensors\"\n",
            "head r2r",
            &["cannot read", "r2r.safetensors"],
        ),
        ("[server]\napi_key_file = \"keys.txt\"\n", "server", &["keys.txt"]),
    ];
    for (addition, about, parts) in table {
        let found = findings(folder.path(), &format!("{PAIR}{addition}"), &ROOMY);
        says(&found, Level::Error, about, parts);
        assert_eq!(errors(&found), 1, "{addition}: {found:#?}");
    }
    let template = PAIR.replacen('\n', "\nchat_template = \"broken.jinja\"\n", 1);
    says(
        &findings(folder.path(), &template, &ROOMY),
        Level::Error,
        "chat template",
        &["broken.jinja"],
    );
}

/// A head of the binary, which was trained for hidden states of another width.
#[test]
fn a_head_of_another_model_is_refused() {
    let text = "name = \"d\"\n[[models]]\nname = \"m\"\nsource = \"embedded:tiny/large\"\n\
                [[heads]]\nname = \"h\"\nmodel = \"m\"\nfile = \"embedded:tiny/citer\"\n";
    let found = findings(Path::new(""), text, &ROOMY);
    says(
        &found,
        Level::Error,
        "head h",
        &["hidden states of 128 numbers", "the model have 256"],
    );
}

#[test]
fn what_the_machine_lacks_is_said_with_what_to_change() {
    let text = "name = \"d\"\n[[models]]\nname = \"m\"\nsource = \"embedded:tiny/large\"\nthreads = 3\n\
                [[models]]\nname = \"n\"\nsource = \"embedded:tiny/large\"\nthreads = 2\n";
    let small = |cores, total, free| Machine {
        cores,
        memory_bytes: Some((total, free)),
    };
    let found = findings(Path::new(""), text, &small(4, 64 << 30, 1 << 20));
    says(
        &found,
        Level::Warn,
        "memory",
        &["only 1.0 MiB are free", "limits.kv_tokens", "\"q4\""],
    );
    says(&found, Level::Warn, "threads", &["5 in all on 4 cores"]);
    assert_eq!(errors(&found), 0);
    let found = findings(Path::new(""), text, &small(2, 1 << 20, 1 << 19));
    says(&found, Level::Error, "memory", &["of 1.0 MiB only 512.0 KiB are free"]);
    says(&found, Level::Warn, "threads", &["3 threads on 2 cores"]);

    let short = format!("{text}[limits]\nkv_tokens = 32\n");
    says(
        &findings(Path::new(""), &short, &ROOMY),
        Level::Warn,
        "KV",
        &["32 tokens together", "limits.kv_tokens"],
    );
}

/// Machines without a GPU say so; where there is one, the device is opened and its memory said.
#[test]
fn a_gpu_is_opened_or_its_lack_is_said() {
    let text = "name = \"d\"\n[[models]]\nname = \"m\"\nsource = \"embedded:tiny/large\"\ndevice = \"cuda:63\"\n";
    let found = findings(Path::new(""), text, &ROOMY);
    says(&found, Level::Error, "device cuda:63", &["cuda:63"]);
}
