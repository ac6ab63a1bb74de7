//! Every variant of the matrix product.

use tokenrouter_model::cuda::{Device, check};

use super::report::Report;

/// Sums of a few hundred bf16 products in f32 come within some 1e-7 of their values; results in bf16 within 2^-8 each.
const ERROR_MAX_FLOAT: f64 = 1e-6;
const ERROR_MAX_HALF: f64 = 4e-3;

pub(super) fn run(device: &Device, report: &mut Report) -> anyhow::Result<()> {
    report.heading("matrix products against sums in f64")?;
    for check in check::products(device)? {
        let limit = if check.variant.ends_with("SwiGlu") {
            ERROR_MAX_HALF
        } else {
            ERROR_MAX_FLOAT
        };
        let bits = if check.same_bits {
            "the same bits as the others"
        } else {
            "other bits than the others"
        };
        let found = format!("relative error {:.1e}, {bits}", check.error);
        report.claim(
            "products",
            &check.variant,
            &found,
            check.error <= limit && check.same_bits,
        )?;
    }
    Ok(())
}
