// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Draws the pictures of the documents from the raw runs in `evidence/`:
//! `![…](pictures/FOLDER.svg)` shows the deciding metric of the runs in that folder, as drawn by
//! `pagewise lab replay --html`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::run;

/// The folder of the pictures, relative to the project.
const PLACE: &str = "docs/pictures";
const ENDING: &str = ".svg";
/// Titles of the pictures, one of which is in each HTML page: "Every arm" if there are more than
/// two arms, otherwise "Every metric".
const TITLES: [&str; 2] = ["<title>Every arm</title>", "<title>Every metric</title>"];
/// The attribute that an SVG picture needs as a separate file, but not inside an HTML page.
const NAME_SPACE: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\"";

/// The folders of the pictures that a document shows.
pub(super) fn find_shown(text: &str) -> BTreeSet<String> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let names = links.filter_map(|link| link.trim_start_matches("../").strip_prefix("pictures/"));
    let names = names.filter_map(|name| name.strip_suffix(ENDING));
    // pictures in folders are drawn from recordings, not from evidence
    names.filter(|name| !name.contains('/')).map(str::to_owned).collect()
}

/// Redraws these pictures; with `check`, returns the names of those that differ. A picture that no
/// document shows is an error.
pub(super) fn draw(program: &Path, folders: &BTreeSet<String>, check: bool) -> Result<Vec<String>> {
    let place = run::project().join(PLACE);
    let drawn = find_drawn(&place)?;
    let left: Vec<&String> = drawn.difference(folders).collect();
    ensure!(left.is_empty(), "{PLACE}: pictures that no document shows: {left:?}");
    let mut differing = Vec::new();
    for folder in folders {
        let path = place.join(format!("{folder}{ENDING}"));
        let picture = make_picture(program, folder).with_context(|| folder.clone())?;
        if fs::read_to_string(&path).is_ok_and(|old| old == picture) {
            continue;
        }
        if !check {
            fs::write(&path, &picture).with_context(|| path.display().to_string())?;
        }
        differing.push(format!("{PLACE}/{folder}{ENDING}"));
    }
    Ok(differing)
}

fn find_drawn(place: &Path) -> Result<BTreeSet<String>> {
    let entries = fs::read_dir(place).with_context(|| place.display().to_string())?;
    let paths: Vec<PathBuf> = entries.map(|it| Ok(it?.path())).collect::<Result<_>>()?;
    let names = paths.iter().filter_map(|path| path.file_name()?.to_str()?.strip_suffix(ENDING));
    Ok(names.map(str::to_owned).collect())
}

fn make_picture(program: &Path, folder: &str) -> Result<String> {
    let runs = run::project().join("evidence").join(folder);
    ensure!(runs.is_dir(), "evidence/{folder}: no such folder");
    let place = tempfile::tempdir()?;
    let page = place.path().join("page.html");
    let mut command = run::program(program);
    run::output(command.args(["lab", "replay", "--quiet", "--html"]).arg(&page).arg(&runs))?;
    extract_picture(&fs::read_to_string(&page)?)
}

/// The first picture of the deciding metric in an HTML page, as a separate file.
fn extract_picture(page: &str) -> Result<String> {
    let pictures = page.split("<svg").skip(1).filter_map(|rest| rest.split("</svg>").next());
    let pictures: Vec<&str> = pictures.collect();
    let of = |title: &str| pictures.iter().find(|picture| picture.contains(title));
    let found = TITLES.iter().find_map(|title| of(title));
    let body = found.context("the page has no picture of arms or metrics")?;
    Ok(format!("{NAME_SPACE}{body}</svg>\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_name_their_pictures() {
        let text = "![a](pictures/2026-01-01-x-y.svg) and [b](pictures/b.png), ![c](other/c.svg), ![d](../pictures/d.svg), ![e](pictures/hosts/e.svg)";
        assert_eq!(find_shown(text), BTreeSet::from(["2026-01-01-x-y", "d"].map(str::to_owned)));
    }

    #[test]
    fn the_picture_of_what_decides_stands_alone() {
        let page = "<p><svg a><title>Every run</title></svg><svg b><title>Every metric</title>1</svg>\
                    <svg b><title>Every arm</title>2</svg></p>";
        let alone = format!("{NAME_SPACE} b><title>Every arm</title>2</svg>\n");
        assert_eq!(extract_picture(page).unwrap(), alone);
        assert!(extract_picture("<svg><title>Every run</title></svg>").is_err());
    }
}
