//! Downloads from a hub on this machine, over real HTTP.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;

use tempfile::TempDir;

use super::{Cache, HubError, Progress, Pulled, Repo, Settings, pull};

#[path = "../../../../tests/common/fake_hub.rs"]
mod fake_hub;
use fake_hub::{COMMIT, FakeHub, Faults};

const ID: &str = "org/tiny-model";

/// Remembers what it was told.
#[derive(Default)]
struct Seen {
    all: Cell<u64>,
    at: Cell<u64>,
}

impl Progress for Seen {
    fn start(&self, bytes: u64) {
        self.all.set(bytes);
    }

    fn file(&self, _: &str) {}

    fn at(&self, bytes: u64) {
        assert!(bytes <= self.all.get(), "{bytes} of {}", self.all.get());
        self.at.set(bytes);
    }
}

struct Here {
    hub: FakeHub,
    folder: TempDir,
}

impl Here {
    fn new(hub: FakeHub) -> Self {
        let folder = TempDir::new().unwrap();
        Self { hub, folder }
    }

    fn settings(&self) -> Settings {
        Settings {
            endpoint: self.hub.url.clone(),
            token: None,
            is_offline: false,
            cache: Cache::new(self.folder.path().to_owned()),
        }
    }

    fn pull(&self, name: &str) -> Result<Pulled, HubError> {
        pull_with(&self.settings(), name)
    }

    fn snapshot(&self) -> std::path::PathBuf {
        self.folder
            .path()
            .join("models--org--tiny-model/snapshots")
            .join(COMMIT)
    }

    /// What of a blob has come.
    fn incomplete(&self) -> Vec<u64> {
        let blobs = std::fs::read_dir(self.folder.path().join("models--org--tiny-model/blobs")).unwrap();
        let blobs = blobs.map(|entry| entry.unwrap());
        let partial = blobs.filter(|entry| entry.file_name().to_string_lossy().ends_with(".incomplete"));
        partial.map(|entry| entry.metadata().unwrap().len()).collect()
    }
}

fn pull_with(settings: &Settings, name: &str) -> Result<Pulled, HubError> {
    let seen = Seen::default();
    let pulled = pull(settings, &name.parse::<Repo>().unwrap(), &seen);
    if pulled.is_ok() {
        assert_eq!(seen.at.get(), seen.all.get(), "the bar does not end at its end");
    }
    pulled
}

fn model(name: &str) -> Vec<u8> {
    std::fs::read(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../models/tiny/small")
            .join(name),
    )
    .unwrap()
}

#[test]
fn a_model_is_pulled_once_and_only_what_it_needs() {
    let here = Here::new(FakeHub::tiny(ID));
    let pulled = here.pull(ID).unwrap();
    let files = ["config.json", "model.safetensors", "tokenizer.json"];
    let bytes: usize = files.iter().map(|name| model(name).len()).sum();
    assert_eq!(
        (pulled.path.clone(), pulled.downloaded_bytes),
        (here.snapshot(), bytes as u64)
    );

    // The layout of the hub's own programs.
    let found = std::fs::read_dir(here.snapshot())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let mut found: Vec<_> = found.map(|name| name.into_string().unwrap()).collect();
    found.sort();
    assert_eq!(found, files);
    let refs = here.folder.path().join("models--org--tiny-model/refs/main");
    assert_eq!(std::fs::read_to_string(refs).unwrap(), COMMIT);
    for name in files {
        let path = here.snapshot().join(name);
        assert_eq!(std::fs::read(&path).unwrap(), model(name), "{name}");
        let link = std::fs::read_link(&path).unwrap();
        assert!(link.starts_with("../../blobs"), "{}", link.display());
        let etag = link.file_name().unwrap().len();
        assert_eq!(etag, if name == "model.safetensors" { 64 } else { 40 }, "{name}");
    }
    let source = here.settings().cache.source(&ID.parse().unwrap()).unwrap();
    assert_eq!(source.config().unwrap().vocab_size, 64);

    here.hub.requests();
    let again = here.pull(ID).unwrap();
    assert_eq!((again.path, again.downloaded_bytes), (pulled.path, 0));
    assert_eq!(here.hub.requests(), [format!("GET /api/models/{ID}/revision/main")]);

    let models = here.settings().cache.models().unwrap();
    let [listed] = models.as_slice() else {
        panic!("{models:?}")
    };
    assert_eq!(
        (listed.id.as_str(), listed.revisions.as_slice()),
        (ID, ["main".to_owned()].as_slice())
    );
    assert_eq!(
        (listed.bytes, listed.missing.as_deref()),
        (bytes as u64, Some([].as_slice()))
    );
}

#[test]
fn shards_are_those_of_the_index() {
    let index =
        br#"{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}"#;
    let files: BTreeMap<String, Vec<u8>> = [
        ("config.json", model("config.json")),
        ("tokenizer.json", model("tokenizer.json")),
        ("chat_template.jinja", b"{{ messages }}".to_vec()),
        ("model.safetensors.index.json", index.to_vec()),
        ("model-00001-of-00002.safetensors", vec![1; 300_000]),
        ("model-00002-of-00002.safetensors", vec![2; 10]),
        ("model-00001-of-00001.safetensors", vec![3; 10]),
    ]
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .into();
    let here = Here::new(FakeHub::start(ID, files));
    here.pull(&format!("{ID}@v1")).unwrap();
    assert_eq!(std::fs::read_dir(here.snapshot()).unwrap().count(), 6);
    let cache = here.settings().cache;
    assert!(cache.source(&format!("{ID}@v1").parse().unwrap()).is_ok());
    assert!(cache.source(&format!("{ID}@{COMMIT}").parse().unwrap()).is_ok());
    // Another revision was not asked for.
    assert!(matches!(
        cache.source(&ID.parse().unwrap()),
        Err(HubError::NotCached { .. })
    ));

    std::fs::remove_file(here.snapshot().join("model-00002-of-00002.safetensors")).unwrap();
    let error = cache
        .source(&format!("{ID}@v1").parse().unwrap())
        .unwrap_err()
        .to_string();
    assert!(error.contains("lacks model-00002-of-00002.safetensors"), "{error}");
    assert!(
        error.ends_with(&format!("tokenrouter-host models pull {ID}@v1")),
        "{error}"
    );
    assert_eq!(
        here.pull(&format!("{ID}@v1")).unwrap().downloaded_bytes,
        0,
        "its blob is still there"
    );
}

#[test]
fn a_cut_connection_is_gone_on_with() {
    let here = Here::new(FakeHub::tiny(ID));
    here.hub.fails(Faults {
        cut: Some(("model.safetensors".to_owned(), 100_000)),
        ..Faults::default()
    });
    let pulled = here.pull(ID).unwrap();
    assert_eq!(
        std::fs::read(pulled.path.join("model.safetensors")).unwrap(),
        model("model.safetensors")
    );
    let gets = here.hub.requests().into_iter().filter(|it| it.starts_with("GET /cdn/"));
    let gets: Vec<String> = gets.collect();
    assert_eq!(
        gets,
        ["GET /cdn/model.safetensors", "GET /cdn/model.safetensors bytes=100000-"]
    );
}

/// What a process that was killed left behind, also one of another program: the name is the same.
#[test]
fn what_came_before_is_not_fetched_again() {
    let here = Here::new(FakeHub::tiny(ID));
    here.pull(ID).unwrap();
    let link = here.snapshot().join("model.safetensors");
    let blob = std::fs::canonicalize(&link).unwrap();
    std::fs::remove_file(&link).unwrap();
    let whole = std::fs::read(&blob).unwrap();
    for (left, came) in [
        (&whole[..1000], whole.len() - 1000),
        (&whole[..], 0),
        (&[whole.as_slice(), b"x"].concat(), whole.len()),
    ] {
        std::fs::remove_file(&blob).unwrap();
        std::fs::write(
            blob.with_file_name(format!("{}.incomplete", blob.file_name().unwrap().display())),
            left,
        )
        .unwrap();
        assert_eq!(here.pull(ID).unwrap().downloaded_bytes, came as u64);
        assert_eq!(std::fs::read(&blob).unwrap(), whole);
        assert_eq!(here.incomplete(), [0; 0]);
        std::fs::remove_file(&link).unwrap();
    }
}

#[test]
fn what_is_not_what_the_hub_says_is_refused_and_deleted() {
    for file in ["model.safetensors", "config.json"] {
        let here = Here::new(FakeHub::tiny(ID));
        here.hub.fails(Faults {
            changed: Some(file.to_owned()),
            ..Faults::default()
        });
        let error = here.pull(ID).unwrap_err();
        assert!(matches!(error, HubError::Corrupt { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains(file) && text.contains("its hash is") && text.contains("pull again"),
            "{text}"
        );
        assert_eq!(here.incomplete(), [0; 0]);
        assert!(!here.snapshot().join(file).exists());
        here.hub.fails(Faults::default());
        here.pull(ID).unwrap();
    }
    let here = Here::new(FakeHub::tiny(ID));
    here.hub.fails(Faults {
        short: Some("model.safetensors".to_owned()),
        ..Faults::default()
    });
    let error = here.pull(ID).unwrap_err().to_string();
    assert!(
        error.contains("model.safetensors") && error.contains("it has no byte"),
        "{error}"
    );
    assert_eq!(here.incomplete(), [0; 0]);
    assert!(matches!(
        here.settings().cache.source(&ID.parse().unwrap()),
        Err(HubError::NotCached { .. })
    ));
}

#[test]
fn a_token_opens_what_is_closed_and_does_not_leave_the_hub() {
    let here = Here::new(FakeHub::tiny(ID));
    here.hub.fails(Faults {
        token: Some("hf_secret".to_owned()),
        ..Faults::default()
    });
    let error = here.pull(ID).unwrap_err().to_string();
    for part in ["status 401", "private or gated", "HF_TOKEN"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    here.hub.requests();
    let mut settings = here.settings();
    settings.token = Some("hf_secret".to_owned());
    pull_with(&settings, ID).unwrap();
    let requests = here.hub.requests();
    let (cdn, hub): (Vec<_>, Vec<_>) = requests.iter().partition(|it| it.contains("/cdn/"));
    assert!(!cdn.is_empty() && cdn.iter().all(|it| !it.contains("token")), "{cdn:?}");
    assert!(hub.iter().all(|it| it.ends_with("with a token")), "{hub:?}");
}

#[test]
fn what_the_hub_does_not_have_is_said() {
    let here = Here::new(FakeHub::tiny(ID));
    for (name, parts) in [
        ("org/other", ["there is no such repository", "ORG/NAME"]),
        ("org/tiny-model@v9", ["there is no such revision", "@REVISION"]),
        ("org/tiny-model/x.gguf", ["has no x.gguf", "its GGUF files are none"]),
    ] {
        let error = here.pull(name).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}

#[test]
fn one_gguf_file_is_pulled_by_its_name() {
    let files = ["m-Q4_0.gguf", "m-Q8_0.gguf", "README.md"].map(|name| (name.to_owned(), name.as_bytes().to_vec()));
    let here = Here::new(FakeHub::start(ID, files.into()));
    let error = here.pull(ID).unwrap_err().to_string();
    assert!(
        error.contains("config.json") && error.contains("org/tiny-model/m-Q4_0.gguf"),
        "{error}"
    );
    let name = format!("{ID}/m-Q8_0.gguf");
    let pulled = here.pull(&name).unwrap();
    assert_eq!(std::fs::read(&pulled.path).unwrap(), b"m-Q8_0.gguf");
    assert_eq!(std::fs::read_dir(here.snapshot()).unwrap().count(), 1);
    assert_eq!(
        here.settings()
            .cache
            .source(&name.parse().unwrap())
            .unwrap()
            .to_string(),
        pulled.path.display().to_string()
    );
    assert_eq!(here.settings().cache.models().unwrap()[0].ggufs, ["m-Q8_0.gguf"]);
}

#[test]
fn a_renamed_repository_is_followed() {
    let here = Here::new(FakeHub::tiny(ID));
    here.hub.fails(Faults {
        renamed: true,
        ..Faults::default()
    });
    here.pull("old/name").unwrap();
    assert!(here.settings().cache.source(&"old/name".parse().unwrap()).is_ok());
}

#[test]
fn offline_asks_nobody() {
    let here = Here::new(FakeHub::tiny(ID));
    let mut offline = here.settings();
    offline.is_offline = true;
    let error = pull_with(&offline, ID).unwrap_err().to_string();
    assert!(
        error.contains("not in the cache") && error.contains("HF_HUB_OFFLINE"),
        "{error}"
    );
    here.pull(ID).unwrap();
    here.hub.requests();
    let pulled = pull_with(&offline, ID).unwrap();
    assert_eq!((pulled.path, pulled.downloaded_bytes), (here.snapshot(), 0));
    assert_eq!(here.hub.requests(), Vec::<String>::new());
}

/// Two processes that pull the same model must not write into each other's file.
#[test]
fn a_blob_has_one_writer() {
    let here = Here::new(FakeHub::tiny(ID));
    here.pull(ID).unwrap();
    let link = here.snapshot().join("config.json");
    let blob = std::fs::canonicalize(&link).unwrap();
    std::fs::remove_file(&link).unwrap();
    std::fs::remove_file(&blob).unwrap();
    let lock = format!(
        ".locks/models--org--tiny-model/{}.lock",
        blob.file_name().unwrap().display()
    );
    let lock = std::fs::File::create(here.folder.path().join(lock)).unwrap();
    lock.lock().unwrap();
    assert!(matches!(here.pull(ID), Err(HubError::Locked { .. })));
    drop(lock);
    here.pull(ID).unwrap();
}
