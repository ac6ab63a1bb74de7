//! What the environment says of the hub, in the variables that its own programs read.

use std::path::PathBuf;

use super::{Cache, HubError};

const ENDPOINT: &str = "https://huggingface.co";

/// Where the hub is, where its cache is, and how to ask.
#[derive(Clone)]
pub struct Settings {
    /// `HF_ENDPOINT`: the hub or a mirror, without a slash at the end.
    pub endpoint: String,
    /// `HF_TOKEN`, or the token that `hf auth login` left in the folder `HF_HOME`; none asks as anybody.
    pub token: Option<String>,
    /// `HF_HUB_OFFLINE`: ask nobody.
    pub is_offline: bool,
    /// `HF_HUB_CACHE`, else `hub` in `HF_HOME`, else in `huggingface` in `XDG_CACHE_HOME` or `~/.cache`.
    pub cache: Cache,
}

impl Settings {
    /// Reads this process's environment.
    ///
    /// # Errors
    /// [`HubError::NoHome`] when no variable says where the cache could be.
    pub fn of_environment() -> Result<Self, HubError> {
        Self::new(|name| std::env::var_os(name)?.into_string().ok())
    }

    /// The same from any environment. A variable that is empty counts as not set.
    pub(super) fn new(variable: impl Fn(&str) -> Option<String>) -> Result<Self, HubError> {
        let get = |name: &str| variable(name).filter(|value| !value.is_empty());
        let path = |name: &str| get(name).map(PathBuf::from);
        let caches = path("XDG_CACHE_HOME").or_else(|| Some(path("HOME")?.join(".cache")));
        let home = path("HF_HOME").or_else(|| Some(caches?.join("huggingface")));
        let cache = path("HF_HUB_CACHE").or_else(|| Some(home.as_ref()?.join("hub")));
        let stored = || std::fs::read_to_string(home.as_ref()?.join("token")).ok();
        let token = get("HF_TOKEN").or_else(stored).map(|token| token.trim().to_owned());
        let endpoint = get("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned());
        Ok(Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            token: token.filter(|token| !token.is_empty()),
            is_offline: get("HF_HUB_OFFLINE").is_some_and(|value| is_true(&value)),
            cache: Cache::new(cache.ok_or(HubError::NoHome)?),
        })
    }
}

/// As the hub's own programs read it.
fn is_true(value: &str) -> bool {
    ["1", "on", "yes", "true"].contains(&value.to_ascii_lowercase().as_str())
}

/// Without the token: it must not get into a log.
impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("endpoint", &self.endpoint)
            .field("has_token", &self.token.is_some())
            .field("is_offline", &self.is_offline)
            .field("cache", &self.cache)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(variables: &[(&str, &str)]) -> Option<String> {
        let get = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let settings = Settings::new(get).ok()?;
        Some(settings.cache.root().display().to_string())
    }

    /// The order that the documentation of `huggingface_hub` gives.
    #[test]
    fn the_cache_is_where_other_programs_look_for_it() {
        let home = ("HOME", "/h");
        assert_eq!(cache(&[home]).as_deref(), Some("/h/.cache/huggingface/hub"));
        assert_eq!(
            cache(&[home, ("XDG_CACHE_HOME", "/x")]).as_deref(),
            Some("/x/huggingface/hub")
        );
        assert_eq!(
            cache(&[home, ("HF_HOME", "/f"), ("XDG_CACHE_HOME", "/x")]).as_deref(),
            Some("/f/hub")
        );
        assert_eq!(
            cache(&[home, ("HF_HOME", "/f"), ("HF_HUB_CACHE", "/c")]).as_deref(),
            Some("/c")
        );
        assert_eq!(
            cache(&[home, ("HF_HUB_CACHE", "")]).as_deref(),
            Some("/h/.cache/huggingface/hub")
        );
        assert_eq!(cache(&[]), None);
    }

    #[test]
    fn a_token_is_never_shown() {
        let settings =
            Settings::new(|name| ["HOME", "HF_TOKEN"].contains(&name).then(|| "hf_secret".to_owned())).unwrap();
        assert_eq!(settings.token.as_deref(), Some("hf_secret"));
        assert!(
            !format!("{settings:?}")
                .replace("hf_secret/.cache", "")
                .contains("hf_secret")
        );
    }
}
