//! Heads: small networks that the host evaluates at every step, for policies that were trained.

use crate::{Deployment, Options, Signal, Text};

/// The signal of the head that `option` names.
///
/// # Errors
/// If the deployment has no head of that name: says which it has and how a deployment names one.
pub fn head(deployment: &Deployment, option: &Text, options: &Options) -> Result<Signal, String> {
    let name = options.get(option);
    if deployment.heads.iter().any(|head| head == name) {
        return Ok(Signal::HeadScore(name.into()));
    }
    let known = match deployment.heads.as_slice() {
        [] => "none".to_owned(),
        heads => format!("\"{}\"", heads.join("\", \"")),
    };
    Err(format!(
        "head \"{name}\" is not loaded; deployment \"{}\" has: {known}. Name its file in the deployment, [[heads]] with \
         name = \"{name}\", or set option \"{}\" to the name of another",
        deployment.name, option.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{deployment_with_heads, text};

    const HEAD: Text = Text {
        name: "head",
        summary: "a head",
        default: "r2r",
        per_request: false,
    };

    fn found(heads: &[&str], settings: Vec<crate::Setting>) -> Result<Signal, String> {
        let options = Options::read(&[&HEAD], settings)?;
        head(&deployment_with_heads(&["a", "b"], heads), &HEAD, &options)
    }

    #[test]
    fn a_loaded_head_is_asked_for_by_name() {
        assert_eq!(found(&["x", "r2r"], vec![]), Ok(Signal::HeadScore("r2r".into())));
        assert_eq!(
            found(&["x", "r2r"], vec![text("head", "x")]),
            Ok(Signal::HeadScore("x".into()))
        );
    }

    #[test]
    fn a_missing_head_is_named_with_those_there_are_and_what_to_do() {
        assert_eq!(
            found(&[], vec![]).unwrap_err(),
            "head \"r2r\" is not loaded; deployment \"test\" has: none. Name its file in the deployment, [[heads]] with \
             name = \"r2r\", or set option \"head\" to the name of another"
        );
        let refusal = found(&["a", "b"], vec![text("head", "c")]).unwrap_err();
        assert!(
            refusal.contains("\"c\" is not loaded") && refusal.contains("has: \"a\", \"b\"."),
            "{refusal}"
        );
    }
}
