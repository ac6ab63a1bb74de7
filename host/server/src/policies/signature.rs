//! Detached ed25519 signatures of components, by keys that the deployment file names.

use ed25519_dalek::{Signature, VerifyingKey};
use tokenrouter_policy::Digest;

use super::SwapError;

/// A key whose signatures count.
#[derive(Clone, Debug)]
pub struct SigningKey {
    /// Its name, for messages and the audit log.
    pub name: String,
    /// The public key.
    pub key: VerifyingKey,
}

/// A public key from its 64 hexadecimal digits.
///
/// # Errors
/// What is wrong with the text.
pub fn parse_key(text: &str) -> Result<VerifyingKey, String> {
    let expected = "a public ed25519 key is 64 hexadecimal digits";
    // 32 bytes like a digest.
    let bytes: Digest = text.parse().map_err(|_| format!("{text:?}: {expected}"))?;
    VerifyingKey::from_bytes(&bytes.0).map_err(|_| format!("{text:?} is not a point of the curve; {expected}"))
}

/// The signature in a text: 128 hexadecimal digits.
///
/// # Errors
/// Something else.
pub fn parse_signature(text: &str) -> Result<[u8; 64], String> {
    let text = text.trim();
    let refused = || "a signature is 128 hexadecimal digits: 64 bytes of ed25519 over the component".to_owned();
    if text.len() != 128 || !text.is_ascii() {
        return Err(refused());
    }
    let half = |part: &str| part.parse::<Digest>().map_err(|_| refused());
    let (first, second) = (half(&text[..64])?, half(&text[64..])?);
    let mut bytes = [0; 64];
    bytes[..32].copy_from_slice(&first.0);
    bytes[32..].copy_from_slice(&second.0);
    Ok(bytes)
}

/// The name of the key that made a signature of `bytes`; `None` for an upload without one, where none is required.
///
/// # Errors
/// [`SwapError::Unsigned`], [`SwapError::BadSignature`].
pub fn check(
    bytes: &[u8],
    signature: Option<&[u8; 64]>,
    keys: &[SigningKey],
    required: bool,
) -> Result<Option<String>, SwapError> {
    let names = || keys.iter().map(|key| key.name.clone()).collect();
    let Some(signature) = signature else {
        return if required {
            Err(SwapError::Unsigned { keys: names() })
        } else {
            Ok(None)
        };
    };
    let signature = Signature::from_bytes(signature);
    // Strict: no malleable signatures, no keys of small order.
    let signed_by = keys.iter().find(|key| key.key.verify_strict(bytes, &signature).is_ok());
    match signed_by {
        Some(key) => Ok(Some(key.name.clone())),
        None => Err(SwapError::BadSignature { keys: names() }),
    }
}
