//! Models from folders: whole, in shards, and with everything that can be wrong with them.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use tokenrouter_core::ModelIndex;
use tokenrouter_model::{DecoderRunner, Embedded, Runner, Source};

use crate::build::{ODD, Random, RandomModel, file};

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    /// With a random model's configuration in it.
    fn new(name: &str, model: &RandomModel) -> Self {
        let folder = std::env::temp_dir().join(format!("model-source-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config.json"), &model.config_json).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.0.join(name), bytes).unwrap();
    }

    fn load(&self) -> Result<DecoderRunner, String> {
        DecoderRunner::load(&Source::Folder(self.0.clone()), ModelIndex(0)).map_err(|error| error.to_string())
    }

    /// The error of loading, which must contain all of `words`.
    fn refused(&self, words: &[&str]) {
        let error = self.load().expect_err("the model is damaged");
        for word in words {
            assert!(error.contains(word), "\"{error}\" does not contain \"{word}\"");
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn model() -> RandomModel {
    RandomModel::new(ODD, false, &mut Random::new(1))
}

#[test]
fn a_folder_with_one_file_is_loaded() {
    let model = model();
    let folder = Folder::new("whole", &model);
    folder.write("model.safetensors", &model.safetensors);
    let runner = folder.load().unwrap();
    let info = runner.info();
    assert_eq!(
        (info.vocabulary, info.context_max, &info.eos[..], info.bos),
        (37, 100, &[1, 3][..], Some(2))
    );
    // 2 layers, keys and values, 3 heads of 6, 4 bytes each.
    assert_eq!(info.kv_bytes_per_token, 2 * 2 * 3 * 6 * 4);
    let tensors = SafeTensors::deserialize(&model.safetensors).unwrap();
    assert_eq!(
        info.parameters,
        tensors
            .iter()
            .map(|(_, view)| view.data().len() as u64 / 4)
            .sum::<u64>()
    );
}

#[test]
fn a_folder_with_shards_is_loaded() {
    let model = model();
    let folder = Folder::new("shards", &model);
    let parsed = SafeTensors::deserialize(&model.safetensors).unwrap();
    let tensors: HashMap<String, (Vec<usize>, Vec<u8>)> = parsed
        .iter()
        .map(|(name, view)| (name.to_owned(), (view.shape().to_vec(), view.data().to_vec())))
        .collect();
    let in_first = |name: &str| name.len().is_multiple_of(2);
    folder.write(
        "first.safetensors",
        file(tensors.iter().filter(|(name, _)| in_first(name))),
    );
    folder.write(
        "second.safetensors",
        file(tensors.iter().filter(|(name, _)| !in_first(name))),
    );
    let shard = |name: &str| {
        if in_first(name) {
            "first.safetensors"
        } else {
            "second.safetensors"
        }
    };
    let map: HashMap<&String, &str> = tensors.keys().map(|name| (name, shard(name))).collect();
    folder.write(
        "model.safetensors.index.json",
        serde_json::json!({ "weight_map": map }).to_string(),
    );
    folder.load().unwrap();

    fs::remove_file(folder.0.join("second.safetensors")).unwrap();
    folder.refused(&["cannot read", "second.safetensors"]);
    folder.write("second.safetensors", file(std::iter::empty()));
    folder.refused(&["tensor \"model.", "is missing"]);
}

#[test]
fn an_index_does_not_lead_out_of_its_folder() {
    let folder = Folder::new("outside", &model());
    folder.write(
        "model.safetensors.index.json",
        r#"{"weight_map": {"a": "../other/model.safetensors"}}"#,
    );
    folder.refused(&[
        "model.safetensors.index.json",
        "\"../other/model.safetensors\"",
        "name of a file in the folder",
    ]);
}

#[test]
fn what_is_wrong_with_a_folder_is_said_with_the_file() {
    let model = model();
    let folder = Folder::new("wrong", &model);
    folder.refused(&["cannot read", "model.safetensors", "No such file"]);
    folder.write("model.safetensors", &model.safetensors[..model.safetensors.len() / 2]);
    folder.refused(&["model.safetensors is damaged"]);
    folder.write("model.safetensors", &model.safetensors);
    folder.write("config.json", &model.config_json[..40]);
    folder.refused(&["config.json is not the JSON expected"]);
    folder.write(
        "config.json",
        model.config_json.replace("\"hidden_size\":44", "\"hidden_size\":45"),
    );
    folder.refused(&[
        "model.safetensors",
        "tensor \"model.embed_tokens.weight\"",
        "[37, 44]",
        "calls for [37, 45]",
    ]);
    folder.write("config.json", model.config_json.replace("qwen3", "gpt2"));
    folder.refused(&["config.json", "model_type \"gpt2\" is not supported; supported: qwen3"]);
    let missing = Source::Folder(Path::new("/no/such/folder").to_owned());
    assert!(
        missing
            .config()
            .unwrap_err()
            .to_string()
            .starts_with("cannot read /no/such/folder/config.json: ")
    );
    assert!(missing.tokenizer().unwrap_err().to_string().contains("tokenizer.json"));
}

#[test]
fn the_embedded_models_load_and_have_names() {
    for model in Embedded::ALL {
        assert_eq!(Embedded::from_name(model.name()), Some(model));
        let runner = DecoderRunner::load(&Source::Embedded(model), ModelIndex(0)).unwrap();
        assert_eq!(
            (runner.info().vocabulary, &runner.info().eos[..], runner.info().bos),
            (64, &[1][..], Some(2))
        );
    }
    assert_eq!(Embedded::from_name("huge"), None);
}
