//! The closed list of names that a pickle may refer to.

/// What may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// `collections.OrderedDict`.
    OrderedDict,
    /// `torch._utils._rebuild_tensor_v2`.
    RebuildTensor,
    /// `torch._utils._rebuild_parameter`.
    RebuildParameter,
    /// `torch.Size`.
    Size,
    /// A storage type.
    Storage(&'static str),
    /// Types and functions of whose results no field is read.
    Opaque,
}

/// Types of storages, as PyTorch names them.
const STORAGES: [&str; 10] = [
    "Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool",
];

/// The meaning of a name, if it is on the list.
pub(super) fn known(module: &str, name: &str) -> Option<Name> {
    Some(match (module, name) {
        ("collections", "OrderedDict") => Name::OrderedDict,
        ("torch._utils", "_rebuild_tensor_v2") => Name::RebuildTensor,
        ("torch._utils", "_rebuild_parameter") => Name::RebuildParameter,
        ("torch", "Size") => Name::Size,
        ("torch", "float32" | "float64" | "float16" | "bfloat16" | "int64") => Name::Opaque,
        ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar") | ("numpy", "dtype") => Name::Opaque,
        // How a protocol without byte strings writes them; the result is not read either.
        ("_codecs", "encode") => Name::Opaque,
        ("torch", storage) => {
            let dtype = storage.strip_suffix("Storage")?;
            Name::Storage(STORAGES.into_iter().find(|known| *known == dtype)?)
        }
        _ => return None,
    })
}
