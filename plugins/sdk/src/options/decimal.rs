//! Numbers in error messages.

/// A number in decimal, for a message: shortest digits when 15 decimals tell it exactly, else `about` and 6 decimals.
///
/// The standard library's formatting of floats would be a quarter of a policy's component.
pub fn decimal(value: f64) -> String {
    /// Below it a scaled number is exact in f64.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.is_nan() {
        return "NaN".to_owned();
    }
    let sign = if value < 0.0 { "-" } else { "" };
    let size = value.abs();
    if size >= EXACT {
        return format!(
            "{sign}{}",
            if size.is_infinite() {
                "inf"
            } else {
                "more than 9007199254740991"
            }
        );
    }
    let mut scale = 1.0;
    for places in 0..=15 {
        let scaled = (size * scale + 0.5).floor();
        if scaled >= EXACT {
            break;
        }
        if scaled / scale == size {
            return format!("{sign}{}", digits(scaled as u64, places));
        }
        scale *= 10.0;
    }
    let millionths = size * 1e6 + 0.5;
    if millionths >= EXACT {
        return format!("about {sign}{}", digits(size as u64, 0));
    }
    format!("about {sign}{}", digits(millionths as u64, 6))
}

/// `scaled / 10^places`.
fn digits(scaled: u64, places: u32) -> String {
    let unit = 10_u64.pow(places);
    let (whole, part) = (scaled / unit, scaled % unit);
    if places == 0 {
        whole.to_string()
    } else {
        format!("{whole}.{part:0width$}", width = places as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::decimal;

    #[test]
    fn numbers_that_people_write_are_shown_as_written() {
        for text in [
            "0",
            "1",
            "-1",
            "0.03",
            "0.5",
            "-0.1",
            "1.5",
            "20",
            "151936",
            "0.406",
            "0.000001",
            "1.0000000001",
        ] {
            assert_eq!(decimal(text.parse().unwrap()), text);
        }
    }

    #[test]
    fn other_numbers_are_said_to_be_rounded() {
        assert_eq!(decimal(f64::from(0.1_f32) / 3.0), "about 0.033333");
        assert_eq!(decimal(-1e-20), "about -0.000000");
        assert_eq!(decimal(1e300), "more than 9007199254740991");
    }

    #[test]
    fn what_is_not_finite_has_a_name() {
        assert_eq!(decimal(f64::NAN), "NaN");
        assert_eq!(decimal(f64::NEG_INFINITY), "-inf");
    }
}
