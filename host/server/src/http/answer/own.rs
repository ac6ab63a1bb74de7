//! The object `tokenrouter` of a request, this server's own.

use tokenrouter_policy::Setting;

use super::{Fields, kind};
use crate::deployment::{OptionValue, RequestOptions};
use crate::http::ApiError;

const NAMES: [&str; 5] = ["options", "attribution", "steps", "prefix_cache", "assumed"];

/// What the object says.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::http) struct Own {
    /// Options of the policy for this request.
    pub(super) options: Vec<Setting>,
    /// Whether each choice tells which model wrote which token, and every handoff.
    pub(super) attribution: bool,
    /// Whether it also tells the steps behind every token: candidates, signals, decisions.
    pub(super) steps: bool,
    /// Whether the request may share prefixes with others.
    pub(super) prefix_cache: bool,
    /// Whether a stream shows what is written ahead, before it is settled.
    pub(super) assumed: bool,
}

impl Default for Own {
    fn default() -> Self {
        Self {
            options: Vec::new(),
            attribution: false,
            steps: false,
            prefix_cache: true,
            assumed: false,
        }
    }
}

impl Own {
    pub(super) fn read(fields: &Fields<'_>, allowed: &RequestOptions, stream: bool) -> Result<Self, ApiError> {
        let Some(own) = fields.object("tokenrouter")? else {
            return Ok(Self::default());
        };
        if let Some(name) = own.names().find(|name| !NAMES.contains(name)) {
            return Err(own.refuse(name, &format!("is not known; there are {}", NAMES.join(", "))));
        }
        let steps = own.boolean("steps")?.unwrap_or(false);
        let assumed = own.boolean("assumed")?.unwrap_or(false);
        if assumed && !stream {
            let why =
                "is for streams: when an answer is whole, nothing of it is assumed; set stream to true or leave it out";
            return Err(own.refuse("assumed", why));
        }
        Ok(Self {
            options: own
                .object("options")?
                .map_or(Ok(Vec::new()), |options| settings(&options, allowed))?,
            // Steps are told with their token.
            attribution: own.boolean("attribution")?.unwrap_or(false) || steps,
            steps,
            prefix_cache: own.boolean("prefix_cache")?.unwrap_or(true),
            assumed,
        })
    }
}

fn settings(options: &Fields<'_>, allowed: &RequestOptions) -> Result<Vec<Setting>, ApiError> {
    let given = options.names().filter_map(|name| Some((name, options.get(name)?)));
    given
        .map(|(name, json)| {
            let value = OptionValue::from_json(json).map_err(|found| {
                let expected = "must be a boolean, a number, a string, or an array of numbers or of strings";
                let found = if json.is_array() { found.to_owned() } else { kind(json) };
                options.refuse(name, &format!("{expected}, found {found}"))
            })?;
            let setting = Setting {
                name: name.to_owned(),
                value: value.into(),
            };
            match allowed.allow(&setting) {
                Ok(()) => Ok(setting),
                Err(sentence) => Err(options.refuse(name, &sentence)),
            }
        })
        .collect()
}
