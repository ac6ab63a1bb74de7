//! What a client may write in `model`: the deployment, one of its policies, or one of its models alone.

use tokenrouter_core::ModelIndex;
use tokenrouter_engine::Target;

use super::ApiError;

/// The names that are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelNames {
    /// The deployment.
    pub deployment: String,
    /// Its active policies, the default first.
    pub policies: Vec<String>,
    /// Its models, in order.
    pub members: Vec<String>,
}

impl ModelNames {
    /// All names: `deployment`, `deployment@policy` for each policy, `deployment/model` for each model.
    pub fn all(&self) -> Vec<String> {
        let deployment = &self.deployment;
        let policies = self.policies.iter().map(|policy| format!("{deployment}@{policy}"));
        let members = self.members.iter().map(|member| format!("{deployment}/{member}"));
        [deployment.clone()]
            .into_iter()
            .chain(policies)
            .chain(members)
            .collect()
    }

    /// Who answers to a name.
    ///
    /// # Errors
    /// [`ApiError::ModelNotFound`], with the names there are.
    pub fn target(&self, name: &str) -> Result<Target, ApiError> {
        let found = match name.strip_prefix(&self.deployment) {
            Some("") => Some(Target::Default),
            Some(rest) => match (rest.strip_prefix('@'), rest.strip_prefix('/')) {
                (Some(policy), _) if self.policies.iter().any(|known| known == policy) => {
                    Some(Target::Policy(policy.to_owned()))
                }
                (_, Some(member)) => self
                    .members
                    .iter()
                    .position(|known| known == member)
                    .map(|index| Target::Model(ModelIndex(index as u32))),
                _ => None,
            },
            None => None,
        };
        found.ok_or_else(|| ApiError::ModelNotFound {
            name: name.to_owned(),
            known: self.all(),
        })
    }

    /// Whether a policy routes for this target.
    pub fn is_routed(&self, target: &Target) -> bool {
        match target {
            Target::Default => !self.policies.is_empty(),
            Target::Policy(_) => true,
            Target::Model(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> ModelNames {
        ModelNames {
            deployment: "tiny".to_owned(),
            policies: vec!["r-stitch".to_owned()],
            members: vec!["small".to_owned(), "large".to_owned()],
        }
    }

    #[test]
    fn every_name_that_is_listed_has_a_target() {
        let names = names();
        assert_eq!(names.all(), ["tiny", "tiny@r-stitch", "tiny/small", "tiny/large"]);
        let targets: Vec<Target> = names.all().iter().map(|name| names.target(name).unwrap()).collect();
        assert_eq!(
            targets,
            [
                Target::Default,
                Target::Policy("r-stitch".to_owned()),
                Target::Model(ModelIndex(0)),
                Target::Model(ModelIndex(1)),
            ]
        );
    }

    #[test]
    fn other_names_are_not_found_and_the_error_lists_what_there_is() {
        for name in [
            "",
            "gpt-4",
            "tiny2",
            "tiny@",
            "tiny@r2r",
            "tiny/",
            "tiny/huge",
            "tiny@small",
            "tiny/r-stitch",
            "Tiny",
        ] {
            let error = names().target(name).unwrap_err();
            let expected =
                format!("no model \"{name}\" is served; there are tiny, tiny@r-stitch, tiny/small, tiny/large");
            assert_eq!(error.to_string(), expected);
        }
    }
}
