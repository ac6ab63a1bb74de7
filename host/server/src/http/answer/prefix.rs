//! Whose prefixes a request may share. How fast an answer begins tells whether its prompt was asked before, so requests share only with
//! those of the same key; `cache_salt` divides a key's requests further, and never joins what keys divide.

use sha2::{Digest as _, Sha256};
use tokenrouter_core::prefix::PrefixSalt;

use super::Fields;
use crate::http::ApiError;
use crate::http::auth::Client;
use crate::http::limits::CACHE_SALT_BYTES_MAX;
use crate::http::request_id::random_bits;

/// What a request says about sharing its prefixes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::http) struct Sharing {
    /// Neither takes nor leaves anything: `tokenrouter.prefix_cache` is false.
    pub(super) off: bool,
    /// `cache_salt`, as vLLM calls it: shares only with requests of the same.
    pub(super) salt: Option<String>,
}

impl Sharing {
    pub(super) fn read(fields: &Fields<'_>, on: bool) -> Result<Self, ApiError> {
        let salt = fields.text("cache_salt")?;
        match salt.map(str::len) {
            Some(0) => Err(fields.refuse(
                "cache_salt",
                "is empty; leave it out to share with all requests of the key",
            )),
            Some(bytes) if bytes > CACHE_SALT_BYTES_MAX => Err(fields.refuse(
                "cache_salt",
                &format!("has {bytes} bytes; at most {CACHE_SALT_BYTES_MAX} are possible"),
            )),
            _ => Ok(Self {
                off: !on,
                salt: salt.map(str::to_owned),
            }),
        }
    }
}

/// Makes the salts of a server's requests.
pub(in crate::http) struct PrefixSalts {
    /// Whether the deployment shares prefixes at all.
    on: bool,
    /// Without it nobody can work out two texts of the same salt.
    secret: [u64; 4],
}

impl PrefixSalts {
    /// With a secret of its own.
    pub(in crate::http) fn new(on: bool) -> Self {
        Self {
            on,
            secret: std::array::from_fn(|_| random_bits()),
        }
    }

    /// Whether the deployment shares prefixes at all.
    pub(in crate::http) fn is_on(&self) -> bool {
        self.on
    }

    /// The salt of a request that came with this key, if one is asked for; `None` if it shares nothing.
    pub(super) fn of(&self, client: Option<&Client>, sharing: &Sharing) -> Option<PrefixSalt> {
        if !self.on || sharing.off {
            return None;
        }
        let mut digest = Sha256::new();
        self.secret.iter().for_each(|word| digest.update(word.to_le_bytes()));
        // Of fixed length, and none is the digest of a key: no text of one request continues another's key.
        digest.update(client.map_or([0; 32], |client| client.0));
        // An empty salt is refused, so none is a salt of its own.
        digest.update(sharing.salt.as_deref().unwrap_or_default());
        let digest: [u8; 32] = digest.finalize().into();
        let (salt, _) = digest.split_first_chunk::<16>()?;
        Some(PrefixSalt(u128::from_le_bytes(*salt)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_salts_divide_and_nothing_joins() {
        let salts = PrefixSalts::new(true);
        let with = |salt: Option<&str>| Sharing {
            off: false,
            salt: salt.map(str::to_owned),
        };
        let clients = [None, Some(Client([1; 32])), Some(Client([2; 32]))];
        let all: Vec<_> = clients
            .iter()
            .flat_map(|client| [None, Some("a"), Some("b")].map(|salt| salts.of(client.as_ref(), &with(salt))))
            .collect();
        for (index, salt) in all.iter().enumerate() {
            assert!(salt.is_some() && !all[..index].contains(salt), "{all:?}");
        }
        assert_eq!(
            salts.of(clients[1].as_ref(), &with(Some("a"))),
            all[4],
            "the same every time"
        );
        assert_ne!(
            PrefixSalts::new(true).of(None, &with(None)),
            all[0],
            "another server's secret"
        );
    }

    #[test]
    fn off_is_off() {
        let off = Sharing { off: true, salt: None };
        assert_eq!(PrefixSalts::new(true).of(None, &off), None);
        assert_eq!(PrefixSalts::new(false).of(None, &Sharing::default()), None);
    }
}
