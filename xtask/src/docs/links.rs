//! Links of a page to files and headings of the repository.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

/// Links of a page that lead nowhere, by line. Those to other places are not followed.
pub fn dead(page: &Path, lines: &[String]) -> Vec<(usize, String)> {
    static LINK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\]\(([^()\s]+)\)").expect("it is one"));
    let mut wrong = Vec::new();
    for (number, line) in text(lines) {
        for link in LINK.captures_iter(line) {
            let target = &link[1];
            if target.contains("://") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() {
                page.to_owned()
            } else {
                page.with_file_name(file)
            };
            if !path.exists() {
                wrong.push((number, format!("the link leads to {file}, which is not there")));
            } else if !heading.is_empty() && !headings(&path).iter().any(|name| name == heading) {
                wrong.push((
                    number,
                    format!("the link leads to #{heading}, and no heading is called so"),
                ));
            }
        }
    }
    wrong
}

/// The lines of a page that are in no block.
fn text(lines: &[String]) -> impl Iterator<Item = (usize, &str)> {
    let mut is_block = false;
    lines.iter().enumerate().filter_map(move |(number, line)| {
        let is_fence = line.starts_with("```");
        is_block ^= is_fence;
        (!is_block && !is_fence).then_some((number, line.as_str()))
    })
}

/// What links call the headings of a page: lower case, blanks as hyphens, without marks.
fn headings(page: &Path) -> Vec<String> {
    let text_of_page = fs::read_to_string(page).unwrap_or_default();
    let lines: Vec<String> = text_of_page.lines().map(str::to_owned).collect();
    let titles = text(&lines).filter_map(|(_, line)| line.strip_prefix('#'));
    let name = |title: &str| {
        let title = title.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        title
            .chars()
            .filter(|it| it.is_alphanumeric() || ['-', '_'].contains(it))
            .collect()
    };
    titles.map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_somewhere() {
        let folder = std::env::temp_dir().join(format!("xtask-links-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let page = folder.join("page.md");
        let text = "# A page: `it`\n[a](page.md) [b](#a-page-it) [c](https://a.b/c) ![d](none.png)\n```sh\n[e](none)\n```\n[f](page.md#b)";
        fs::write(&page, text).unwrap();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let wrong = dead(&page, &lines);
        assert_eq!(
            wrong.iter().map(|(line, _)| *line).collect::<Vec<_>>(),
            [1, 5],
            "{wrong:?}"
        );
        assert!(wrong[0].1.contains("none.png") && wrong[1].1.contains("#b"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
