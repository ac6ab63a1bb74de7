//! Sizes in words.

/// Bytes, in the unit that suits them.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, size)| bytes >= *size) {
        Some((unit, size)) => format!("{:.1} {unit}", bytes as f64 / *size as f64),
        None => format!("{bytes} bytes"),
    }
}

/// A number of parameters, in millions or billions.
pub(super) fn parameters(count: u64) -> String {
    match count {
        1_000_000_000.. => format!("{:.1} B", count as f64 / 1e9),
        _ => format!("{:.1} M", count as f64 / 1e6),
    }
}
