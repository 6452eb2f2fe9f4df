// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where `pagewise lab` keeps what it fetches: kernels and programs of that folder are run.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::program::{ProgramRun, empty_folder, finish, pagewise};

/// `lab cache list` with these variables and none of the others.
fn list(variables: &[(&str, &Path)]) -> ProgramRun {
    let mut command = pagewise(&["lab", "cache", "list"]);
    for name in ["PAGEWISE_CACHE", "XDG_CACHE_HOME", "HOME"] {
        command.env_remove(name);
    }
    finish(command.envs(variables.iter().copied()))
}

#[test]
fn a_cache_that_others_can_change_is_refused_whichever_variable_names_it() {
    let folder = empty_folder();
    let (open, safe) = (folder.path().join("open"), folder.path().join("safe"));
    for path in [&open, &safe] {
        std::fs::create_dir(path).unwrap();
    }
    set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
    // A link may lead somewhere, and the folder that it leads to is what counts.
    symlink(&open, safe.join("link")).unwrap();
    for (name, path) in [
        ("PAGEWISE_CACHE", open.clone()),
        ("PAGEWISE_CACHE", open.join("below/it")),
        ("PAGEWISE_CACHE", safe.join("link/cache")),
        ("PAGEWISE_CACHE", safe.join("../open")),
        ("XDG_CACHE_HOME", open.clone()),
        ("HOME", open.clone()),
    ] {
        let ran = list(&[(name, &path)]);
        assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{name}: {}", ran.err);
        for told in [
            format!("{} cannot hold the cache, from which programs are run", open.display()),
            "its mode is 0777: others may write there".to_owned(),
            format!(
                "let PAGEWISE_CACHE name a folder below one of your own ({name} led to this one)"
            ),
            format!("`chmod go-w {}`", open.display()),
        ] {
            assert!(ran.err.contains(&told), "{name}: {told}: {}", ran.err);
        }
        assert_eq!(std::fs::read_dir(&open).unwrap().count(), 0, "nothing is made there");
    }
    set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
    for (name, path) in [("PAGEWISE_CACHE", safe.join("link/cache")), ("HOME", open.clone())] {
        let ran = list(&[(name, &path)]);
        assert!(ran.status == 0 && ran.out.starts_with('/'), "{name}: {}", ran.err);
    }
    let made = open.join(".cache/pagewise").metadata().unwrap().permissions().mode();
    assert_eq!(made & 0o7777, 0o700);
}
