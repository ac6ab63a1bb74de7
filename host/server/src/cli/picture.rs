//! The file of `--plot`: its name says which form the picture has.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context as _;
use tokenrouter_planner::chart::Chart;

use super::output;

/// Where a picture goes.
#[derive(Clone, Debug)]
pub(super) struct PictureFile {
    path: PathBuf,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Svg,
    Png,
}

impl FromStr for PictureFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let path = PathBuf::from(text);
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
        let form = match ending.as_deref().and_then(|ending| ending.to_str()) {
            Some("svg") => Form::Svg,
            Some("png") => Form::Png,
            _ => return Err("the name of a picture ends with .svg or .png".to_owned()),
        };
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        match folder {
            Some(folder) if !folder.is_dir() => Err(format!("there is no folder {}", folder.display())),
            _ => Ok(Self { path, form }),
        }
    }
}

impl PictureFile {
    /// Whether it can be written, for what takes long before it is.
    ///
    /// # Errors
    /// If it cannot.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        output::can_write(&self.path).with_context(|| self.cannot())
    }

    /// Draws and writes it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn write(&self, chart: &Chart) -> anyhow::Result<()> {
        let bytes = match self.form {
            Form::Svg => chart.svg().into_bytes(),
            Form::Png => chart.png(),
        };
        std::fs::write(&self.path, bytes).with_context(|| self.cannot())
    }

    fn cannot(&self) -> String {
        format!("--plot {}: cannot write the file", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides_and_any_other_is_refused_before_work_begins() {
        let form = |text: &str| text.parse::<PictureFile>().map(|file| file.form);
        assert_eq!(form("a.svg"), Ok(Form::Svg));
        assert_eq!(form("./a.b.PNG"), Ok(Form::Png));
        for name in ["a", "a.jpg", ".svg", "svg"] {
            assert_eq!(
                form(name),
                Err("the name of a picture ends with .svg or .png".to_owned()),
                "{name}"
            );
        }
        assert_eq!(
            form("no/such/folder/a.svg"),
            Err("there is no folder no/such/folder".to_owned())
        );
    }
}
