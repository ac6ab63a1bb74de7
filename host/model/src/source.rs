//! Where a model comes from: this binary, a folder in Hugging Face's layout, or a GGUF file.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::config::DecoderConfig;
use crate::cpu;
use crate::error::ModelError;
use crate::gguf::GgufFile;
use crate::weights::{Bytes, Weights};

/// The models that are part of the binary: small decoders for arithmetic, so that a host runs without any file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Embedded {
    /// 0.40 M parameters, right on three of five problems.
    Small,
    /// As `Small`, trained longer.
    Middle,
    /// 4.74 M parameters, right on nineteen of twenty problems.
    Large,
}

impl Embedded {
    /// All of them, from the smallest.
    pub const ALL: [Embedded; 3] = [Embedded::Small, Embedded::Middle, Embedded::Large];

    /// The name under which a deployment asks for it.
    pub fn name(self) -> &'static str {
        self.files().name
    }

    /// The embedded model of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|model| model.name() == name)
    }

    fn files(self) -> &'static Files {
        match self {
            Embedded::Small => &SMALL,
            Embedded::Middle => &MIDDLE,
            Embedded::Large => &LARGE,
        }
    }
}

struct Files {
    name: &'static str,
    config: &'static [u8],
    tokenizer: &'static [u8],
    weights: &'static [u8],
}

macro_rules! embed {
    ($name:literal) => {
        Files {
            name: $name,
            config: include_bytes!(concat!("../../../models/tiny/", $name, "/config.json")),
            tokenizer: include_bytes!(concat!("../../../models/tiny/", $name, "/tokenizer.json")),
            weights: include_bytes!(concat!("../../../models/tiny/", $name, "/model.safetensors")),
        }
    };
}

static SMALL: Files = embed!("small");
static MIDDLE: Files = embed!("middle");
static LARGE: Files = embed!("large");

/// Where a model comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The binary.
    Embedded(Embedded),
    /// A folder with `config.json`, `tokenizer.json` and `model.safetensors`, or the last in shards with
    /// `model.safetensors.index.json`.
    Folder(PathBuf),
    /// One file with everything.
    Gguf(PathBuf),
}

/// One file with weights.
pub(crate) enum WeightFile {
    /// In the binary: its bytes, and what to call it.
    Embedded(&'static [u8], String),
    /// On disk.
    Path(PathBuf),
}

const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

impl Source {
    /// The model's configuration.
    ///
    /// # Errors
    /// When the file cannot be read or is not a configuration that this crate can serve.
    pub fn config(&self) -> Result<DecoderConfig, ModelError> {
        let bytes = match self {
            Source::Gguf(path) => return GgufFile::open(path)?.config(),
            Source::Embedded(model) => Cow::Borrowed(model.files().config),
            Source::Folder(folder) => Cow::Owned(read(&folder.join(CONFIG))?),
        };
        DecoderConfig::parse(&bytes, &self.file(CONFIG))
    }

    /// The bytes of `tokenizer.json`; written from what the file says where there is none.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn tokenizer(&self) -> Result<Cow<'static, [u8]>, ModelError> {
        match self {
            Source::Gguf(path) => Ok(Cow::Owned(GgufFile::open(path)?.tokenizer()?)),
            Source::Embedded(model) => Ok(Cow::Borrowed(model.files().tokenizer)),
            Source::Folder(folder) => Ok(Cow::Owned(read(&folder.join(TOKENIZER))?)),
        }
    }

    /// All weights. Files are mapped: a tensor takes memory when a decoder takes it.
    ///
    /// # Errors
    /// When a file is missing or damaged.
    pub fn weights(&self) -> Result<Weights, ModelError> {
        if let Source::Gguf(path) = self {
            return GgufFile::open(path)?.weights();
        }
        let mut weights = Weights::new(&self.to_string());
        for file in self.weight_files()? {
            match file {
                WeightFile::Embedded(bytes, name) => weights.add_bytes(Bytes::Static(bytes), &name)?,
                WeightFile::Path(path) => {
                    weights.add_bytes(Bytes::Mapped(cpu::map(&path)?), &path.display().to_string())?;
                }
            }
        }
        Ok(weights)
    }

    /// The files that the model cannot do without, whether they are there or not; none for a model of the binary.
    ///
    /// # Errors
    /// When an index of shards cannot be read.
    pub fn files(&self) -> Result<Vec<PathBuf>, ModelError> {
        match self {
            Source::Embedded(_) => Ok(Vec::new()),
            Source::Gguf(path) => Ok(vec![path.clone()]),
            Source::Folder(folder) => {
                let small = [CONFIG, TOKENIZER].map(str::to_owned).into_iter();
                Ok(small.chain(shards(folder)?).map(|name| folder.join(name)).collect())
            }
        }
    }

    /// The safetensors files with the weights, for readers of their own.
    ///
    /// # Errors
    /// When an index beside them cannot be read, or the weights are in a file of another kind.
    pub(crate) fn weight_files(&self) -> Result<Vec<WeightFile>, ModelError> {
        match self {
            Source::Embedded(model) => Ok(vec![WeightFile::Embedded(model.files().weights, self.file(WEIGHTS))]),
            Source::Gguf(path) => Err(ModelError::Gguf {
                file: path.display().to_string(),
                what: "GGUF files run on the CPU; a GPU needs a folder with safetensors".to_owned(),
            }),
            Source::Folder(folder) => {
                let shards = shards(folder)?.into_iter();
                Ok(shards.map(|shard| WeightFile::Path(folder.join(shard))).collect())
            }
        }
    }

    fn file(&self, name: &str) -> String {
        match self {
            Source::Embedded(_) => format!("{self}/{name}"),
            Source::Folder(folder) => folder.join(name).display().to_string(),
            Source::Gguf(path) => path.display().to_string(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Embedded(model) => write!(f, "embedded:tiny/{}", model.name()),
            Source::Folder(path) | Source::Gguf(path) => path.display().fmt(f),
        }
    }
}

/// The weights files of a folder. A whole file wins over an index beside it.
fn shards(folder: &Path) -> Result<Vec<String>, ModelError> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: std::collections::BTreeMap<String, String>,
    }
    let index = folder.join(INDEX);
    if folder.join(WEIGHTS).exists() || !index.exists() {
        return Ok(vec![WEIGHTS.to_owned()]);
    }
    let file = index.display().to_string();
    let parsed: Index = serde_json::from_slice(&read(&index)?).map_err(|source| ModelError::Json {
        file: file.clone(),
        source,
    })?;
    let names: BTreeSet<String> = parsed.weight_map.into_values().collect();
    // The index comes with downloaded files: it must not lead out of its folder.
    if let Some(name) = names
        .iter()
        .find(|name| Path::new(name).file_name() != Some(name.as_ref()))
    {
        return Err(ModelError::Config {
            file,
            what: format!("shard \"{name}\" is not the name of a file in the folder"),
        });
    }
    Ok(names.into_iter().collect())
}

fn read(path: &Path) -> Result<Vec<u8>, ModelError> {
    std::fs::read(path).map_err(|source| ModelError::Read {
        path: path.to_owned(),
        source,
    })
}
