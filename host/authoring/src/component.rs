//! From a core module to a component, and what a policy's component may import.

use wit_component::{ComponentEncoder, DecodedWasm};
use wit_parser::{Function, WorldItem, WorldKey};

use crate::AuthoringError;

/// Wraps a core module that the SDK's bindings were linked into, validates the component and checks its world.
///
/// # Errors
/// If the module carries no contract, is not valid, or imports or lacks something a policy must not.
pub fn from_module(module: &[u8]) -> Result<Vec<u8>, AuthoringError> {
    let refuse = |what: &str, error: &dyn std::fmt::Display| AuthoringError::Component(format!("{what}: {error:#}"));
    let component = ComponentEncoder::default()
        .validate(true)
        .module(module)
        .map_err(|error| {
            let what = "the module does not carry the contract; does the crate have `tokenrouter_sdk::export!(…)`?";
            refuse(what, &error)
        })?
        .encode()
        .map_err(|error| refuse("cannot make a component of the module", &error))?;
    check_world(&component)?;
    Ok(component)
}

const EXPORTS: [&str; 6] = ["describe", "init", "admit", "route", "send", "receive"];

/// Checks that a component has the contract's exports and imports `log` and types alone: no system interface.
fn check_world(component: &[u8]) -> Result<(), AuthoringError> {
    let refuse = |text: String| Err(AuthoringError::Component(text));
    let decoded = wit_component::decode(component);
    let DecodedWasm::Component(resolve, world) =
        decoded.map_err(|error| AuthoringError::Component(error.to_string()))?
    else {
        return refuse("not a component".to_owned());
    };
    let world = &resolve.worlds[world];
    for (key, item) in &world.imports {
        match (key, item) {
            (WorldKey::Name(name), WorldItem::Function(Function { .. })) if name == "log" => {}
            (_, WorldItem::Type { .. }) => {}
            (_, WorldItem::Interface { id, .. }) if resolve.interfaces[*id].functions.is_empty() => {}
            (key, _) => {
                return refuse(format!(
                    "it imports \"{}\"; a policy may import only `log` and the contract's types",
                    resolve.name_world_key(key)
                ));
            }
        }
    }
    for wanted in EXPORTS {
        if !world
            .exports
            .keys()
            .any(|key| matches!(key, WorldKey::Name(name) if name == wanted))
        {
            return refuse(format!("it lacks the export \"{wanted}\""));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(component: &str) -> String {
        let bytes = wat::parse_str(component).unwrap();
        format!("{:#}", check_world(&bytes).unwrap_err())
    }

    #[test]
    fn a_function_beside_log_may_not_be_imported() {
        let refusal = refusal(
            r#"(component
                 (import "log" (func))
                 (import "wasi:clocks/monotonic-clock@0.2.0" (instance (export "now" (func (result u64))))))"#,
        );
        assert!(refusal.contains("wasi:clocks/monotonic-clock@0.2.0"), "{refusal}");
    }

    #[test]
    fn a_missing_export_is_named() {
        assert_eq!(
            refusal("(component (import \"log\" (func)))"),
            "it lacks the export \"describe\""
        );
    }

    #[test]
    fn a_module_without_the_contract_is_refused() {
        let module = wat::parse_str("(module)").unwrap();
        assert!(from_module(&module).is_err());
    }
}
