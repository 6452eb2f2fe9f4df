// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The folder in which `pagewise lab` caches kernels and programs, which it then runs, so the
//! folder must be safe.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::program::{ProgramRun, empty_folder, finish, pagewise};

/// `lab cache list` with only these of the environment variables that matter.
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
    // a link may be used, but the permissions of its target count
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

/// The program with an empty cache below this folder, and no program to download with.
fn lab_in(folder: &Path, arguments: &[&str]) -> ProgramRun {
    let mut command = pagewise(&["lab"]);
    command.args(arguments).current_dir(folder);
    finish(command.env("PAGEWISE_CACHE", folder.join("cache")).env("PATH", folder))
}

/// Text with a slash may be a path, so what is refused depends on whether such a file exists.
#[test]
fn a_flavour_that_no_suite_has_is_refused_with_those_that_there_are() {
    let folder = empty_folder();
    let guest = |kernel| lab_in(folder.path(), &["guest", "--kernel", kernel, "--", "true"]);
    for kernel in ["trixie/big", "trixie/cloud"] {
        let ran = guest(kernel);
        assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{kernel}: {}", ran.err);
        for told in [
            format!("no kernel {kernel}: no such file, and a suite has no kernels but"),
            "SUITE (for virtual machines) and SUITE/generic".to_owned(),
            "try --kernel bookworm, trixie, sid, one of these with /generic".to_owned(),
        ] {
            assert!(ran.err.contains(&told), "{kernel}: {told}: {}", ran.err);
        }
    }
    for item in ["trixie/big", "trixie/cloud", "systemd", "./trixie/generic"] {
        for verb in ["fetch", "verify", "prune"] {
            let ran = lab_in(folder.path(), &["cache", verb, item]);
            assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{verb} {item}: {}", ran.err);
            let told = format!(
                "expected SUITE (its cloud kernel), SUITE/generic (its generic kernel) or systemd/SUITE (its \
                 userland), found {item:?}"
            );
            assert!(ran.err.contains(&told), "{verb} {item}: {}", ran.err);
        }
    }
    let text = "about = \"x\"\n[workload]\nkind = \"command\"\nargv = [\"true\"]\n[machine]\n\
        runner = \"guest\"\nkernels = [\"trixie/big\"]\n[measure]\nprimary = \"cpu\"\n[[arm]]\nname = \"a\"\n\
        [[arm]]\nname = \"b\"\nswap = []\n";
    std::fs::write(folder.path().join("own.toml"), text).unwrap();
    let ran = lab_in(folder.path(), &["run", "./own.toml"]);
    assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{}", ran.err);
    assert!(ran.err.contains("no kernel trixie/big: no such file"), "{}", ran.err);
}

#[test]
fn a_generic_kernel_is_told_from_a_file_of_the_same_name() {
    let folder = empty_folder();
    std::fs::create_dir(folder.path().join("trixie")).unwrap();
    for name in ["trixie/generic", "trixie/big"] {
        std::fs::write(folder.path().join(name), "no kernel").unwrap();
    }
    let guest = |kernel| lab_in(folder.path(), &["guest", "--kernel", kernel, "--", "true"]);
    for file in ["./trixie/generic", "trixie/big", "trixie/../trixie/generic"] {
        let ran = guest(file);
        let told = format!("{file}: expected a Linux image");
        assert!(ran.status == 1 && ran.err.contains(&told), "{file}: {}", ran.err);
    }
    // it would have to be downloaded, and there is no program for that
    let ran = guest("trixie/generic");
    assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{}", ran.err);
    for told in ["trixie/generic: fetching the lists of packages", "apt-get is not installed"] {
        assert!(ran.err.contains(told), "{told}: {}", ran.err);
    }
}
