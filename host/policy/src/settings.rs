//! Whether options may be set, in a configuration and in a request.

use crate::{Description, PolicyError, Setting};

/// Every option must be one of the policy's. Whether its value is right, only the policy knows.
pub(crate) fn check_config(description: &Description, config: &[Setting]) -> Result<(), PolicyError> {
    check_twice(config)?;
    for setting in config {
        if !description.options.iter().any(|option| option.name == setting.name) {
            let allowed = description.options.iter().map(|option| option.name.clone()).collect();
            return Err(PolicyError::OptionUnknown {
                name: setting.name.clone(),
                allowed,
            });
        }
    }
    Ok(())
}

/// Every option must be one of those the policy opens to requests.
pub(crate) fn check_request(description: &Description, options: &[Setting]) -> Result<(), PolicyError> {
    check_twice(options)?;
    for setting in options {
        let known = description.options.iter().find(|option| option.name == setting.name);
        if known.is_some_and(|option| option.per_request) {
            continue;
        }
        let per_request = description.options.iter().filter(|option| option.per_request);
        let (name, allowed) = (
            setting.name.clone(),
            per_request.map(|option| option.name.clone()).collect(),
        );
        return Err(match known {
            Some(_) => PolicyError::OptionNotPerRequest { name, allowed },
            None => PolicyError::OptionUnknown { name, allowed },
        });
    }
    Ok(())
}

fn check_twice(settings: &[Setting]) -> Result<(), PolicyError> {
    for (i, setting) in settings.iter().enumerate() {
        if settings[..i].iter().any(|earlier| earlier.name == setting.name) {
            return Err(PolicyError::OptionTwice {
                name: setting.name.clone(),
            });
        }
    }
    Ok(())
}
