// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The name of the swap file, and names for files in `sysctl.d` and `tmpfiles.d`, which determine
//! the order in which these are applied.
//!
//! The order depends only on the name, not on the folder. In sysctl.d, the last assignment takes
//! effect. systemd-tmpfiles applies the *first* line for a path and ignores later ones ("Duplicate
//! line"; tested with systemd 252), so that a plan's file must come first.

/// Path of the swap file that a plan creates.
pub(crate) const SWAP_FILE: &str = "/var/pagewise-swap-0";

/// Returns a file name that sorts after all `others`, which all end with `.conf`. `None` if such a
/// name is not possible with letters, digits and `-_.`, because `apply` writes no other names.
pub(crate) fn find_name_after<'a>(others: impl Iterator<Item = &'a str>) -> Option<String> {
    const USUAL: [&str; 4] =
        ["90-pagewise.conf", "99-pagewise.conf", "99-zz-pagewise.conf", "zz-pagewise.conf"];
    const LONGEST: usize = 100;
    let Some(last) = others.max() else { return Some(USUAL[0].to_owned()) };
    if let Some(name) = USUAL.iter().find(|name| **name > last) {
        return Some((*name).to_owned());
    }
    let stem = last.strip_suffix(".conf").unwrap_or(last);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    // `_` sorts after `.`, with which `.conf` begins
    (stem.len() <= LONGEST && stem.bytes().all(is_plain)).then(|| format!("{stem}_pagewise.conf"))
}

/// Returns a file name that sorts before all `others`; `None` if none of the names that Pagewise
/// uses does.
pub(crate) fn find_name_before<'a>(others: impl Iterator<Item = &'a str>) -> Option<&'static str> {
    const USUAL: [&str; 4] =
        ["05-pagewise.conf", "00-pagewise.conf", "00-0-pagewise.conf", "0-pagewise.conf"];
    let first = others.min();
    USUAL.into_iter().find(|name| first.is_none_or(|first| *name < first))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_usual_name_is_taken_where_it_does() {
        let name_after = |names: &[&'static str]| super::find_name_after(names.iter().copied());
        assert_eq!(name_after(&[]).unwrap(), "90-pagewise.conf");
        assert_eq!(name_after(&["10-a.conf", "90-file.conf"]).unwrap(), "90-pagewise.conf");
        assert_eq!(name_after(&["99-sysctl.conf"]).unwrap(), "99-zz-pagewise.conf");
        assert_eq!(name_after(&["zzz.conf", "a.conf"]).unwrap(), "zzz_pagewise.conf");
        assert_eq!(
            find_name_before(["legacy.conf", "x11.conf"].into_iter()),
            Some("05-pagewise.conf")
        );
        assert_eq!(find_name_before(["00-a.conf"].into_iter()), Some("00-0-pagewise.conf"));
    }

    proptest! {
        #[test]
        fn it_comes_after_all_and_before_all(names in prop::collection::vec("[!-~]{1,12}\\.conf", 0..8)) {
            if let Some(after) = find_name_after(names.iter().map(String::as_str)) {
                prop_assert!(names.iter().all(|name| **name < *after));
                prop_assert!(after.ends_with("pagewise.conf"));
                prop_assert!(after.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)));
            }
            if let Some(before) = find_name_before(names.iter().map(String::as_str)) {
                prop_assert!(names.iter().all(|name| *before < **name));
            }
        }
    }
}
