// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Root runs nothing from a cache that another user could have changed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use crate::program::{ProgramRun, empty_folder, finish, pagewise};

const STRANGER: u32 = 65534;

fn lab_cache(cache: &Path, words: &[&str]) -> ProgramRun {
    let mut command = pagewise(&[&["lab", "cache"], words].concat());
    finish(command.env("PAGEWISE_CACHE", cache))
}

/// A folder or link owned by another user anywhere in the path is refused, before its owner changes
/// anything.
#[test]
fn root_takes_no_cache_from_somebody_else() {
    let folder = empty_folder();
    let at = |name: &str| folder.path().join(name);
    for name in ["theirs/cache", "shared", "ours/cache"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    chown(at("theirs"), Some(STRANGER), Some(STRANGER)).unwrap();
    // Permissions like /tmp, but with another owner.
    fs::set_permissions(at("shared"), fs::Permissions::from_mode(0o1777)).unwrap();
    symlink(at("ours/cache"), at("shared/link")).unwrap();
    std::os::unix::fs::lchown(at("shared/link"), Some(STRANGER), None).unwrap();
    for (path, told) in [
        (
            "theirs",
            "theirs cannot hold the cache, from which programs are run: it belongs to user 65534",
        ),
        ("theirs/cache", "theirs cannot hold the cache"),
        ("theirs/cache/new", "theirs cannot hold the cache"),
        (
            "shared/link",
            "link cannot hold the cache, from which programs are run: it is a link of user",
        ),
        ("shared", "shared cannot hold the cache, from which programs are run: its mode is 1777"),
    ] {
        let ran = lab_cache(&at(path), &["list"]);
        assert!(ran.status == 1 && ran.err.contains(told), "{path}: {}", ran.err);
        assert!(ran.err.contains("next   let PAGEWISE_CACHE name a folder"), "{path}: {}", ran.err);
    }
    let own = lab_cache(&at("shared/own"), &["list"]);
    assert_eq!(own.status, 0, "root's folder in a sticky folder of root: {}", own.err);
}

/// A complete entry whose file belongs to another user is refused, although size and SHA-256 match
/// its manifest.
#[test]
fn root_takes_no_file_from_somebody_else() {
    let cache = empty_folder();
    assert_eq!(lab_cache(cache.path(), &["list"]).status, 0);
    let entry = cache.path().join("kernels/test");
    fs::create_dir(&entry).unwrap();
    let sum = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let manifest = format!(
        "{{\"suite\":\"test\",\"release\":\"1.2\",\"packages\":[],\
         \"files\":{{\"image\":{{\"size\":5,\"sha256\":\"{sum}\"}}}}}}"
    );
    fs::write(entry.join("manifest.json"), manifest).unwrap();
    fs::write(entry.join("image"), "hello").unwrap();
    assert!(lab_cache(cache.path(), &["list"]).out.contains("  1.2\n"));
    chown(entry.join("image"), Some(STRANGER), None).unwrap();
    let listed = lab_cache(cache.path(), &["list"]);
    assert!(listed.out.contains("damaged"), "{}", listed.out);
    chown(entry.join("image"), Some(0), None).unwrap();
    fs::rename(entry.join("image"), entry.join("other")).unwrap();
    symlink("other", entry.join("image")).unwrap();
    let listed = lab_cache(cache.path(), &["list"]);
    assert!(listed.out.contains("damaged"), "{}", listed.out);
}
