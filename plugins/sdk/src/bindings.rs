//! The contract's types and calls, generated from `wit/policy.wit`. The types exist on every target; only the
//! exports and the import `log` need Wasm.
#![allow(
    unsafe_code,
    missing_docs,
    unused_qualifications,
    clippy::all,
    reason = "generated code"
)]

wit_bindgen::generate!({
    path: "../../wit",
    world: "policy",
    pub_export_macro: true,
    export_macro_name: "export_component",
    default_bindings_module: "tokenrouter_sdk::bindings",
    additional_derives: [PartialEq],
});
