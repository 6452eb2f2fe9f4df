// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Extracts from a source file or a schema the comments and descriptions that its readers see.
//!
//! Only comments on lines of their own are read. Adjacent comments are one text, in Markdown, as in
//! documentation.

use crate::prose::{self, Piece};

/// Passages of the comments of a Rust, C or shell file, which the file's name distinguishes; for a
/// JSON schema, its descriptions.
pub(crate) fn passages(path: &str, text: &str) -> Vec<Vec<Piece>> {
    let marks: &[&str] = match path.rsplit('.').next() {
        Some("json") => return descriptions(text),
        Some("rs") => &["///", "//!", "//"],
        Some("c" | "h") => &["//", "/*", "*"],
        _ => &["#"],
    };
    let mut passages = Vec::new();
    let mut begun = 0;
    let mut markdown = String::new();
    for (at, line) in text.lines().chain([""]).enumerate() {
        let line = line.trim_start();
        let comment = marks.iter().find_map(|mark| line.strip_prefix(mark));
        match comment.filter(|_| !line.starts_with("#!") && !line.starts_with("#[")) {
            Some(comment) => {
                if markdown.is_empty() {
                    begun = at;
                }
                markdown.push_str(comment.strip_prefix(' ').unwrap_or(comment));
                markdown.push('\n');
            }
            None if markdown.is_empty() => {}
            None => {
                for mut passage in prose::passages(&markdown) {
                    for piece in &mut passage.pieces {
                        piece.line += begun;
                    }
                    passages.push(passage.pieces);
                }
                markdown.clear();
            }
        }
    }
    passages
}

fn descriptions(text: &str) -> Vec<Vec<Piece>> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let value = line.trim_start().strip_prefix("\"description\": ");
        if let Some(value) = value {
            found.push(vec![Piece::text(at + 1, value.replace("\\n", " "))]);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<(usize, String)> {
        let passages = passages(path, text);
        let joined = |passage: &Vec<Piece>| {
            (passage[0].line, passage.iter().map(|piece| piece.text.as_str()).collect::<String>())
        };
        passages.iter().map(joined).collect()
    }

    #[test]
    fn comments_that_follow_each_other_are_one_passage_with_its_line() {
        let text = "//! One\n//! two.\n\nfn f() {\n    // Three.\n    let x = \"# // no\";\n}\n";
        assert_eq!(lines("a.rs", text), [(1, "One two.".to_owned()), (5, "Three.".to_owned())]);
        let c = "/* One\n * two. */\nint x;\n";
        assert_eq!(lines("a.c", c), [(1, "One two. */".to_owned())]);
        assert_eq!(lines("a.sh", "#!/bin/sh\n# One.\nx=1\n"), [(2, "One.".to_owned())]);
    }

    #[test]
    fn a_schema_has_its_descriptions() {
        let text = "{\n  \"description\": \"A size\\nin bytes\",\n  \"title\": \"x\"\n}\n";
        assert_eq!(lines("a.json", text), [(2, "\"A size in bytes\",".to_owned())]);
    }
}
