// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the links of the documents: each file that a link names exists, and each anchor is a heading.
//!
//! Links to other sites are not followed, because CI must not depend on them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use crate::prose;
use crate::run;
use crate::words::{DOCUMENTS, Fault};

/// The table of contents of the manual.
const SUMMARY: &str = "docs/SUMMARY.md";

/// The links of the documents that lead nowhere, and the pages that the table of contents does not
/// list.
pub(crate) fn find_faults() -> Result<Vec<Fault>> {
    let texts = run::texts(DOCUMENTS)?;
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        texts.iter().map(|(path, text)| (path.as_str(), anchors(text))).collect();
    let mut faults = Vec::new();
    for (path, text) in &texts {
        for (line, target) in prose::links(text) {
            let exists = |file: &str| run::project().join(file).exists();
            if let Some(what) = find_fault(path, &target, &anchors, exists) {
                faults.push(Fault { path: path.clone(), line, what });
            }
        }
    }
    faults.extend(find_unlisted(&texts));
    Ok(faults)
}

/// The pages of the manual that its table of contents lacks.
fn find_unlisted(texts: &[(String, String)]) -> Vec<Fault> {
    let Some((_, summary)) = texts.iter().find(|(path, _)| path == SUMMARY) else {
        return vec![Fault { path: SUMMARY.to_owned(), line: 1, what: "no such file".to_owned() }];
    };
    let links = prose::links(summary);
    let listed: BTreeSet<String> =
        links.iter().filter_map(|(_, target)| resolve(SUMMARY, target)).collect();
    let pages = texts.iter().map(|(path, _)| path).filter(|path| path.starts_with("docs/"));
    let missing = pages.filter(|path| *path != SUMMARY && !listed.contains(*path));
    let fault = |path: &String| Fault {
        path: path.clone(),
        line: 1,
        what: format!("{SUMMARY} lacks this page"),
    };
    missing.map(fault).collect()
}

/// What is wrong with a link in the document `path`; `None` if the link is right.
fn find_fault(
    path: &str,
    target: &str,
    anchors: &BTreeMap<&str, BTreeSet<String>>,
    exists: impl Fn(&str) -> bool,
) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) =
        target.split_once('#').map_or((target, None), |(file, it)| (file, Some(it)));
    let file = if file.is_empty() { Some(path.to_owned()) } else { resolve(path, file) };
    let Some(file) = file.filter(|file| exists(file)) else {
        return Some(format!("{target:?}: no such file"));
    };
    let known = anchors.get(file.as_str());
    match (anchor, known) {
        (Some(anchor), Some(known)) if !known.contains(anchor) => {
            Some(format!("{target:?}: {file} has no such heading"))
        }
        _ => None,
    }
}

/// The path in the project to which a link leads; `None` if the link leads out of the project.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut path = PathBuf::new();
    for part in Path::new(from).parent()?.join(target).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::ParentDir if !path.pop() => return None,
            _ => {}
        }
    }
    path.to_str().map(str::to_owned)
}

/// The anchors of a document's headings, in the form that web sites give them: lower case, without
/// punctuation, with hyphens for spaces, and with a number if the same heading occurred before.
fn anchors(markdown: &str) -> BTreeSet<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for heading in prose::headings(markdown) {
        let kept = heading.chars().flat_map(char::to_lowercase).filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            letter => letter.is_alphanumeric().then_some(letter),
        });
        let anchor: String = kept.collect();
        let count = counts.entry(anchor.clone()).or_default();
        anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_made_of_headings() {
        let text = "# A b\n\n## What if: `--what-if` and `--prove`\n\n## A b\n\ntext\n\n### thp.defrag: x_y\n";
        let expected = ["a-b", "what-if---what-if-and---prove", "a-b-1", "thpdefrag-x_y"];
        assert_eq!(anchors(text), expected.map(str::to_owned).into());
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let headings = BTreeSet::from(["here".to_owned()]);
        let anchors = BTreeMap::from([("docs/a.md", headings.clone()), ("README.md", headings)]);
        let exists = |file: &str| ["docs/a.md", "README.md", "docs/b.png"].contains(&file);
        let fault = |target: &str| find_fault("docs/a.md", target, &anchors, exists);
        for right in ["#here", "a.md", "../README.md#here", "b.png", "https://x/y#z"] {
            assert_eq!(fault(right), None, "{right}");
        }
        for wrong in ["#there", "c.md", "../README.md#there", "../../README.md", "README.md"] {
            assert!(fault(wrong).is_some(), "{wrong}");
        }
    }

    #[test]
    fn a_page_that_the_contents_lack_is_found() {
        let page = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let summary = page(SUMMARY, "- [a](a.md)\n- [r](../README.md)\n");
        let texts =
            [summary, page("docs/a.md", ""), page("docs/b/c.md", ""), page("README.md", "")];
        let paths: Vec<String> =
            find_unlisted(&texts).into_iter().map(|fault| fault.path).collect();
        assert_eq!(paths, ["docs/b/c.md"]);
        assert_eq!(find_unlisted(&texts[1..]).len(), 1);
    }

    #[test]
    fn links_are_read_from_text_tables_images_and_html() {
        let text = "[a](x.md) and ![b](y.png)\n\n| a |\n|---|\n| [c](z.md#d) |\n\n<img src=\"p.svg\">\n\n`[e](f.md)`\n";
        let links = prose::links(text);
        let targets: Vec<(usize, &str)> =
            links.iter().map(|(line, it)| (*line, it.as_str())).collect();
        assert_eq!(targets, [(1, "x.md"), (1, "y.png"), (5, "z.md#d"), (7, "p.svg")]);
    }
}
