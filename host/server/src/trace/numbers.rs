//! Signals in JSON, which has no infinities: they are written as texts.

use serde::ser::SerializeSeq as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A row of signals. `inf`, `-inf` and `nan` stand for what is not a finite number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers(pub Vec<f32>);

impl Serialize for Numbers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for &number in &self.0 {
            if number.is_finite() {
                list.serialize_element(&number)?;
            } else {
                list.serialize_element(&number.to_string().to_lowercase())?;
            }
        }
        list.end()
    }
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a number, \"inf\", \"-inf\" or \"nan\"")]
        enum Number {
            Finite(f32),
            Other(Other),
        }
        #[derive(Deserialize)]
        enum Other {
            #[serde(rename = "inf")]
            Inf,
            #[serde(rename = "-inf")]
            MinusInf,
            #[serde(rename = "nan")]
            Nan,
        }
        let numbers: Vec<Number> = Vec::deserialize(deserializer)?;
        let number = |number| match number {
            Number::Finite(number) => number,
            Number::Other(Other::Inf) => f32::INFINITY,
            Number::Other(Other::MinusInf) => f32::NEG_INFINITY,
            Number::Other(Other::Nan) => f32::NAN,
        };
        Ok(Self(numbers.into_iter().map(number).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back_bit_for_bit() {
        let numbers = vec![
            0.0,
            -0.0,
            0.1,
            1.0e-45,
            f32::MAX,
            1.0 / 3.0,
            f32::INFINITY,
            f32::NEG_INFINITY,
        ];
        let text = serde_json::to_string(&Numbers(numbers.clone())).unwrap();
        assert!(text.ends_with("\"inf\",\"-inf\"]"), "{text}");
        let back: Numbers = serde_json::from_str(&text).unwrap();
        let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&back.0), bits(&numbers));
        assert!(serde_json::from_str::<Numbers>("[\"nan\"]").unwrap().0[0].is_nan());
        assert!(serde_json::from_str::<Numbers>("[null]").is_err());
    }
}
