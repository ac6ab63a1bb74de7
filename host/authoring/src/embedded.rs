//! Files of the repository that are part of this crate; `build.rs` lists them.

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
