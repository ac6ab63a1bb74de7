//! The fenced blocks of a page, with what the comments before them say.

/// Languages whose blocks hold commands.
const SHELLS: [&str; 2] = ["sh", "console"];
const COMMENT: &str = "<!-- docs: ";

/// A fenced block. Lines count from 0.
#[derive(Debug, Default, PartialEq)]
pub struct Block {
    pub language: String,
    /// The line of the opening fence.
    pub fence: usize,
    /// The first line within, and the one behind the last.
    pub from: usize,
    pub behind: usize,
    pub content: Content,
    /// Commands to run first.
    pub before: Vec<String>,
    pub numbers_vary: bool,
    /// What commands begin with that are not run; the empty text for all.
    not_run: Vec<String>,
}

/// What a block is to the runner.
#[derive(Debug, Default, PartialEq)]
pub enum Content {
    Commands,
    File(String),
    Output,
    #[default]
    Other,
}

impl Block {
    /// Whether a command of the block is run.
    pub fn is_run(&self, command: &str) -> bool {
        !self.not_run.iter().any(|beginning| command.starts_with(beginning))
    }

    /// Takes in one comment.
    fn obey(&mut self, comment: &str) -> Result<(), String> {
        let (name, value) = comment.split_once(": ").unwrap_or((comment, ""));
        match (name, value) {
            ("output", "") => self.content = Content::Output,
            ("numbers vary", "") => self.numbers_vary = true,
            ("file", value) if !value.is_empty() => self.content = Content::File(value.to_owned()),
            ("before", value) if !value.is_empty() => self.before.push(value.to_owned()),
            ("not run", value) if !value.is_empty() => {
                let (beginning, reason) = match value.strip_prefix('`').and_then(|rest| rest.split_once('`')) {
                    Some((beginning, rest)) => (beginning, rest.strip_prefix(": ").unwrap_or_default()),
                    None => ("", value),
                };
                if reason.is_empty() {
                    return Err(format!(
                        "`{comment}` gives no reason; write `not run: `BEGINNING`: REASON`"
                    ));
                }
                self.not_run.push(beginning.to_owned());
            }
            _ => {
                return Err(format!(
                    "`docs: {comment}` is not known; there are `not run: REASON`, `before: COMMAND`, `file: NAME`, `output` and \
                     `numbers vary`"
                ));
            }
        }
        Ok(())
    }
}

/// All blocks of a page, and what is wrong with its comments and fences, by line.
pub fn read(lines: &[String]) -> (Vec<Block>, Vec<(usize, String)>) {
    let (mut blocks, mut wrong) = (Vec::new(), Vec::new());
    let (mut next, mut comment_at) = (Block::default(), None);
    let mut number = 0;
    while number < lines.len() {
        let line = &lines[number];
        if let Some(comment) = line.strip_prefix(COMMENT) {
            comment_at = Some(number);
            match comment.strip_suffix(" -->") {
                Some(comment) => wrong.extend(next.obey(comment).err().map(|mistake| (number, mistake))),
                None => wrong.push((number, "the comment does not end in its line".to_owned())),
            }
        } else if let Some(language) = line.strip_prefix("```") {
            let end = lines[number + 1..].iter().position(|line| line == "```");
            let Some(length) = end else {
                wrong.push((number, "the block does not end".to_owned()));
                break;
            };
            let mut block = std::mem::take(&mut next);
            comment_at = None;
            block.language = language.to_owned();
            (block.fence, block.from, block.behind) = (number, number + 1, number + 1 + length);
            if SHELLS.contains(&language) && block.content == Content::Other {
                block.content = Content::Commands;
            }
            if block.content == Content::Other && block != plain(&block) {
                wrong.push((
                    number,
                    "a comment here is for a block of commands, and this is none".to_owned(),
                ));
            }
            if language.is_empty() || language == "bash" || language == "shell" {
                wrong.push((
                    number,
                    "name the block's language: sh or console for commands, or text".to_owned(),
                ));
            }
            number = block.behind;
            blocks.push(block);
        } else if let Some(at) = comment_at.take() {
            wrong.push((at, "no block follows".to_owned()));
            next = Block::default();
        } else if line.trim_start().starts_with("```") {
            wrong.push((
                number,
                "the block is indented, so its commands are not found".to_owned(),
            ));
        }
        number += 1;
    }
    wrong.extend(comment_at.map(|at| (at, "no block follows".to_owned())));
    (blocks, wrong)
}

/// A block of the same place that no comment says anything about.
fn plain(block: &Block) -> Block {
    let language = block.language.clone();
    Block {
        language,
        fence: block.fence,
        from: block.from,
        behind: block.behind,
        ..Block::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn comments_are_for_the_block_behind_them() {
        let page = "# A\n\n<!-- docs: numbers vary -->\n<!-- docs: not run: `ssh`: no other machine -->\n```sh\nls\n```\n\n```json\n{}\n```";
        let (blocks, wrong) = read(&lines(page));
        assert_eq!(wrong, []);
        assert_eq!(blocks[0].content, Content::Commands);
        assert_eq!((blocks[0].from, blocks[0].behind), (5, 6));
        assert!(blocks[0].numbers_vary && blocks[0].is_run("ls") && !blocks[0].is_run("ssh host"));
        assert_eq!(blocks[1].content, Content::Other);
        assert!(!blocks[1].numbers_vary);
    }

    #[test]
    fn nothing_is_passed_over_in_silence() {
        for (page, line, part) in [
            ("<!-- docs: not run -->\n```sh\nls\n```", 0, "is not known"),
            ("<!-- docs: not run: `ls` -->\n```sh\nls\n```", 0, "gives no reason"),
            ("<!-- docs: ouput -->\n```text\nls\n```", 0, "is not known"),
            ("<!-- docs: output -->\n\nText", 0, "no block follows"),
            ("<!-- docs: output\n-->\n```text\n```", 0, "does not end in its line"),
            ("<!-- docs: numbers vary -->\n```text\nls\n```", 1, "this is none"),
            ("```\nls\n```", 0, "name the block's language"),
            ("  ```sh\n  ls\n  ```", 0, "indented"),
            ("```sh\nls", 0, "does not end"),
        ] {
            let (_, wrong) = read(&lines(page));
            let found = wrong.iter().any(|(at, mistake)| *at == line && mistake.contains(part));
            assert!(found, "{page:?}: {part:?} is not in {wrong:?}");
        }
    }
}
