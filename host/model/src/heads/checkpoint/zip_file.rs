//! The zip file in which PyTorch keeps a pickle and the bytes of storages, all uncompressed.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;

use zip::ZipArchive;

/// Largest pickle that is read. It holds names and shapes; published ones have a few kilobytes.
const PICKLE_BYTES_MAX: u64 = 16 << 20;

/// An open file.
pub(super) struct ZipFile {
    archive: ZipArchive<BufReader<File>>,
    /// What names of entries begin with: the folder of `data.pkl`, with its slash.
    folder: String,
    /// Of the whole file: no uncompressed entry is larger.
    bytes: u64,
}

impl ZipFile {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        let bytes = file.metadata().map_err(|error| error.to_string())?.len();
        let archive = ZipArchive::new(BufReader::new(file))
            .map_err(|error| format!("damaged: {error}; a checkpoint is a whole zip file as `torch.save` writes it"))?;
        let names = archive.file_names().filter_map(Result::ok);
        let folders: Vec<String> = names
            .filter_map(|name| name.strip_suffix("data.pkl").map(str::to_owned))
            .filter(|folder| folder.is_empty() || folder.ends_with('/'))
            .collect();
        match folders.as_slice() {
            [folder] => Ok(Self {
                folder: folder.clone(),
                archive,
                bytes,
            }),
            _ => Err(format!(
                "a zip file with {} entries data.pkl; a checkpoint has one",
                folders.len()
            )),
        }
    }

    /// The pickle.
    pub(super) fn pickle(&mut self) -> Result<Vec<u8>, String> {
        if let Ok(order) = self.entry("byteorder", 16)
            && order != b"little"
        {
            return Err("saved on a big-endian machine; save it on a little-endian one".to_owned());
        }
        self.entry("data.pkl", PICKLE_BYTES_MAX)
    }

    /// The bytes of a storage, which must be `len`.
    pub(super) fn storage(&mut self, key: &str, len: u64) -> Result<Vec<u8>, String> {
        let found = self.entry(&format!("data/{key}"), len)?;
        if found.len() as u64 == len {
            Ok(found)
        } else {
            Err(format!("data/{key} has {} bytes, expected {len}", found.len()))
        }
    }

    /// The bytes of an entry of at most `len_max` bytes.
    fn entry(&mut self, name: &str, len_max: u64) -> Result<Vec<u8>, String> {
        let name = format!("{}{name}", self.folder);
        let entry = self
            .archive
            .by_name(&name)
            .map_err(|error| format!("{name}: {error}"))?;
        // What the directory claims is checked before memory is taken for it.
        let len = entry.size();
        if len > len_max || len > self.bytes {
            return Err(format!(
                "{name} claims {len} bytes; expected at most {}",
                len_max.min(self.bytes)
            ));
        }
        let mut bytes = Vec::with_capacity(len as usize);
        entry
            .take(len)
            .read_to_end(&mut bytes)
            .map_err(|error| format!("{name}: {error}"))?;
        Ok(bytes)
    }
}
