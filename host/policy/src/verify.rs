//! What can be known of an upload before it is compiled: its kind, the contract it was built for, and what it takes and
//! offers. Reading is cheap and safe on any bytes; compiling is neither.

use wasmparser::{ComponentTypeRef, Parser, Payload};

use crate::PolicyError;

/// The contract's package.
pub const CONTRACT_PACKAGE: &str = "tokenrouter:policy";

/// The version of the contract this host serves.
pub const CONTRACT_VERSION: &str = "0.1.0";

/// The functions of the contract.
pub(crate) const EXPORTS: [&str; 6] = ["describe", "init", "admit", "route", "send", "receive"];

/// Checks `bytes` in the order in which a mistake is best explained: the first thing that is wrong is reported.
pub(crate) fn verify(bytes: &[u8], bytes_max: usize) -> Result<(), PolicyError> {
    if bytes.len() > bytes_max {
        return Err(PolicyError::TooLarge {
            bytes: bytes.len(),
            bytes_max,
        });
    }
    if !bytes.starts_with(b"\0asm") {
        return Err(PolicyError::NotWasm { start: start(bytes) });
    }
    if Parser::is_core_wasm(bytes) {
        return Err(PolicyError::CoreModule);
    }
    let outside = Outside::read(bytes).map_err(|error| PolicyError::Invalid {
        reason: error.to_string(),
    })?;
    outside.check_contract()?;
    outside.check_imports()?;
    outside.check_exports()
}

/// The names on the outside of a component, for tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surface {
    /// What it needs: for a policy `log`, and the contract's types.
    pub imports: Vec<String>,
    /// What it offers.
    pub exports: Vec<String>,
}

impl Surface {
    /// Reads a component's imports and exports, without compiling anything.
    ///
    /// # Errors
    /// [`PolicyError::Invalid`] if the bytes are no component.
    pub fn read(bytes: &[u8]) -> Result<Self, PolicyError> {
        let outside = Outside::read(bytes).map_err(|error| PolicyError::Invalid {
            reason: error.to_string(),
        })?;
        Ok(Self {
            imports: outside.imports.into_iter().map(|import| import.name).collect(),
            exports: outside.exports,
        })
    }
}

/// A [`Surface`] that knows which imports are only types.
#[derive(Default)]
struct Outside {
    imports: Vec<Import>,
    exports: Vec<String>,
}

struct Import {
    name: String,
    /// A type needs nothing from the host, whatever it is called.
    is_type: bool,
}

impl Outside {
    fn read(bytes: &[u8]) -> wasmparser::Result<Self> {
        let mut outside = Self::default();
        let mut depth = 0u32;
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentImportSection(section) if depth == 0 => {
                    for import in section {
                        let import = import?;
                        let is_type = matches!(import.ty, ComponentTypeRef::Type(_));
                        outside.imports.push(Import {
                            name: import.name.name.to_owned(),
                            is_type,
                        });
                    }
                }
                Payload::ComponentExportSection(section) if depth == 0 => {
                    for export in section {
                        outside.exports.push(export?.name.name.to_owned());
                    }
                }
                _ => {}
            }
        }
        Ok(outside)
    }

    /// Policies name the contract through its interfaces: `tokenrouter:policy/types@0.1.0`.
    fn check_contract(&self) -> Result<(), PolicyError> {
        let names = self
            .imports
            .iter()
            .map(|import| import.name.as_str())
            .chain(self.exports.iter().map(String::as_str));
        let mut of_contract = names
            .filter_map(|name| name.strip_prefix(CONTRACT_PACKAGE)?.strip_prefix('/'))
            .map(|interface| interface.split_once('@').map_or("", |(_, version)| version))
            .peekable();
        if of_contract.peek().is_none() {
            return Err(PolicyError::NotAPolicy);
        }
        match of_contract.find(|version| *version != CONTRACT_VERSION) {
            None => Ok(()),
            Some("") => Err(PolicyError::ContractVersion {
                found: format!("{CONTRACT_PACKAGE} without a version"),
            }),
            Some(version) => Err(PolicyError::ContractVersion {
                found: format!("{CONTRACT_PACKAGE}@{version}"),
            }),
        }
    }

    fn check_imports(&self) -> Result<(), PolicyError> {
        let types = format!("{CONTRACT_PACKAGE}/types@{CONTRACT_VERSION}");
        let foreign = self
            .imports
            .iter()
            .filter(|i| !i.is_type && i.name != "log" && i.name != types);
        let names: Vec<String> = foreign.map(|import| import.name.clone()).collect();
        if names.is_empty() {
            Ok(())
        } else {
            Err(PolicyError::ForeignImports { names })
        }
    }

    fn check_exports(&self) -> Result<(), PolicyError> {
        let missing = EXPORTS
            .iter()
            .filter(|name| !self.exports.iter().any(|export| export == *name));
        let names: Vec<String> = missing.map(|name| (*name).to_owned()).collect();
        if names.is_empty() {
            Ok(())
        } else {
            Err(PolicyError::MissingExports { names })
        }
    }
}

fn start(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "nothing (it is empty)".to_owned();
    }
    bytes
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect::<Vec<_>>()
        .join(" ")
}
