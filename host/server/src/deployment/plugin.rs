//! Where a policy comes from: this binary, a file, or nowhere.

use std::borrow::Cow;
use std::path::Path;

use super::DeploymentError;

/// The policies that are part of the binary, by name.
pub static EMBEDDED_POLICIES: [(&str, &[u8]); 8] = [
    ("citer", include_bytes!("../../../../plugins/dist/citer.wasm")),
    ("co-llm", include_bytes!("../../../../plugins/dist/co-llm.wasm")),
    (
        "glimprouter",
        include_bytes!("../../../../plugins/dist/glimprouter.wasm"),
    ),
    ("me", include_bytes!("../../../../plugins/dist/me.wasm")),
    ("r-stitch", include_bytes!("../../../../plugins/dist/r-stitch.wasm")),
    ("r2r", include_bytes!("../../../../plugins/dist/r2r.wasm")),
    ("random", include_bytes!("../../../../plugins/dist/random.wasm")),
    (
        "request-level",
        include_bytes!("../../../../plugins/dist/request-level.wasm"),
    ),
];

/// The name that stands for serving without a policy.
pub const NO_PLUGIN: &str = "none";

/// What a deployment's `plugin` may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plugin {
    /// No policy: the first model answers alone.
    None,
    /// A component, and what to call it in messages.
    Component {
        /// The name or path as it was given.
        given: String,
        /// The component's bytes.
        bytes: Cow<'static, [u8]>,
    },
}

impl Plugin {
    /// Finds a policy by its built-in name or by the path of a file, taken relative to `base`.
    ///
    /// # Errors
    /// [`DeploymentError::PluginMissing`] if it is neither, [`DeploymentError::PluginRead`] if the file cannot be read.
    pub fn find(given: &str, base: &Path) -> Result<Self, DeploymentError> {
        if given == NO_PLUGIN {
            return Ok(Self::None);
        }
        let embedded = EMBEDDED_POLICIES.iter().find(|(name, _)| *name == given);
        if let Some((_, bytes)) = embedded {
            return Ok(Self::Component {
                given: given.to_owned(),
                bytes: Cow::Borrowed(bytes),
            });
        }
        let path = base.join(given);
        match std::fs::read(&path) {
            Ok(bytes) => Ok(Self::Component {
                given: given.to_owned(),
                bytes: Cow::Owned(bytes),
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(DeploymentError::PluginMissing {
                plugin: given.to_owned(),
                path,
            }),
            Err(source) => Err(DeploymentError::PluginRead { path, source }),
        }
    }
}

/// The built-in names, for messages.
pub(super) fn embedded_names() -> String {
    EMBEDDED_POLICIES.map(|(name, _)| name).join(", ")
}
