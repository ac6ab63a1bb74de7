//! The web page: built files of `web/`, embedded. The client's listener has it at `/`, and the admin listener one that shows and
//! changes policies, so neither has to be opened to pages of other origins.

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};

/// Nothing but what this listener serves: no outside resource, no inline script or style, no frame around it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageFile {
    /// Where answers are asked for.
    Answers,
    /// Where policies are changed.
    Policies,
    /// What moves both.
    Script,
    /// What both look like.
    Style,
}

impl PageFile {
    /// The file of a path at the clients' listener.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        match path {
            "/" => Some(Self::Answers),
            "/app.js" => Some(Self::Script),
            "/style.css" => Some(Self::Style),
            _ => None,
        }
    }

    fn content(self) -> &'static str {
        match self {
            Self::Answers => include_str!("../web/dist/index.html"),
            Self::Policies => include_str!("../web/dist/admin.html"),
            Self::Script => include_str!("../web/dist/app.js"),
            Self::Style => include_str!("../web/dist/style.css"),
        }
    }

    /// Its media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Answers | Self::Policies => "text/html; charset=utf-8",
            Self::Script => "text/javascript; charset=utf-8",
            Self::Style => "text/css; charset=utf-8",
        }
    }
}

impl IntoResponse for PageFile {
    fn into_response(self) -> Response {
        let headers: [(HeaderName, &'static str); 5] = [
            (header::CONTENT_TYPE, self.media_type()),
            (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            // A new release of the server brings a new page.
            (header::CACHE_CONTROL, "no-cache"),
        ];
        let mut response = self.content().into_response();
        for (name, value) in headers {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page must work where nothing else can be reached.
    #[test]
    fn the_page_names_no_outside_resource_and_its_script_is_small() {
        for file in [PageFile::Answers, PageFile::Policies, PageFile::Style] {
            for outside in ["http:", "https:", "//", "@import", "<style", "style=", "onclick"] {
                // Comments of the style sheet aside, which the build takes out.
                assert!(!file.content().contains(outside), "{file:?} has {outside}");
            }
        }
        let script = PageFile::Script.content();
        assert!(script.len() < 150_000, "{} bytes", script.len());
        for inline in ["eval(", "new Function"] {
            assert!(!script.contains(inline), "{inline} does not run under the policy");
        }
    }
}
