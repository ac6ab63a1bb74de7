//! The bytes of a weights file, wherever they are.

use memmap2::Mmap;

/// In the binary, in memory of their own, or a file that is mapped.
#[derive(Debug)]
pub(crate) enum Bytes {
    Static(&'static [u8]),
    Owned(Vec<u8>),
    Mapped(Mmap),
}

impl Bytes {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Static(bytes) => bytes,
            Self::Owned(bytes) => bytes,
            Self::Mapped(map) => map,
        }
    }
}
