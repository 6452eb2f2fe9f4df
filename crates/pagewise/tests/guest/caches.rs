// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cache that all guest tests share, and copies of it for single tests.
//!
//! A new cache does not record yet whether a kernel boots with KVM on this machine, so the first
//! run starts an idle guest to find out, which takes 20 s if none boots. Caches made here copy the
//! answer of the shared cache, so that a test sees only its own guest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::boot::{ProgramRun, finish, lab, program};

/// The folder that keeps kernels and userlands between runs of these tests.
pub(crate) fn shared() -> PathBuf {
    let named = std::env::var_os("PAGEWISE_CACHE").expect("set by cargo xtask test");
    fs::create_dir_all(&named).expect("the cache that PAGEWISE_CACHE names");
    Path::new(&named).canonicalize().unwrap()
}

/// The folder of kernels in the shared cache, after making sure that it contains this one.
pub(crate) fn kernels(kernel: &str) -> PathBuf {
    let kernels = shared().join("kernels");
    if !kernels.join(folder_name(kernel)).exists() {
        let fetched = finish(program().args(["lab", "cache", "fetch", kernel]));
        assert_eq!(fetched.status, 0, "{kernel}: {}", fetched.err);
    }
    kernels
}

/// The entry for `trixie/generic` is next to that for `trixie`.
fn folder_name(kernel: &str) -> String {
    kernel.replace('/', "+")
}

/// The release of the kernel that `--kernel` with this name selects.
pub(crate) fn release(kernel: &str) -> String {
    let path = kernels(kernel).join(folder_name(kernel)).join("manifest.json");
    let manifest: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    manifest["release"].as_str().unwrap_or_else(|| panic!("{}", path.display())).to_owned()
}

/// A separate cache with the kernels of the shared one, so that it shows nothing of other tests.
pub(crate) fn own() -> tempfile::TempDir {
    let own = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(kernels("bookworm"), own.path().join("kernels")).unwrap();
    bring_kvm_answer(own.path());
    own
}

/// Copies the answer of the shared cache about KVM.
pub(crate) fn bring_kvm_answer(cache: &Path) {
    let locks = cache.join("locks");
    fs::create_dir_all(&locks).unwrap();
    if let Some(answer) = kvm_answer() {
        fs::write(locks.join("kvm"), answer).unwrap();
    }
}

/// The shared cache's answer about KVM for this boot of the machine. If it has none, a guest is run
/// once; if QEMU itself does not start with KVM, there is still no answer.
fn kvm_answer() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let of_this_boot =
        |path: &Path| fs::read_to_string(path).ok().filter(|text| text.starts_with(boot.trim()));
    let (answer, asked) = (shared().join("locks/kvm"), shared().join("kvm-was-asked"));
    of_this_boot(&answer).or_else(|| {
        if of_this_boot(&asked).is_none() {
            let ran = finish(&mut lab(&["--kernel", "bookworm", "--", "true"]));
            assert_eq!(ran.status, 0, "{}", ran.err);
            fs::write(&asked, &boot).unwrap();
        }
        of_this_boot(&answer)
    })
}

/// Runs `lab cache verify` on trixie's kernel in this cache.
fn verify(cache: &Path) -> ProgramRun {
    finish(program().args(["lab", "cache", "verify", "trixie"]).env("PAGEWISE_CACHE", cache))
}

/// Anybody who can write to the cache can also write a matching manifest, so only a comparison with
/// Debian's signed packages shows the change.
#[test]
fn guest_kernel_that_was_changed_with_its_manifest_is_told_from_debians() {
    let own = tempfile::tempdir().unwrap();
    let entry = own.path().join("kernels/trixie");
    fs::create_dir_all(entry.parent().unwrap()).unwrap();
    let copied =
        Command::new("cp").arg("-a").arg(kernels("trixie").join("trixie")).arg(&entry).status();
    assert!(copied.unwrap().success());
    let mut genuine = verify(own.path());
    if genuine.out.contains("not compared, as the suite has other packages by now") {
        let fetched = finish(
            program().args(["lab", "cache", "fetch", "trixie"]).env("PAGEWISE_CACHE", own.path()),
        );
        assert_eq!(fetched.status, 0, "{}", fetched.err);
        genuine = verify(own.path());
    }
    let whole = "trixie: every file is that of Debian's signed packages\n";
    assert_eq!((genuine.status, genuine.out.as_str()), (0, whole), "{}", genuine.err);

    let (busybox, manifest) = (entry.join("busybox"), entry.join("manifest.json"));
    let mut bytes = fs::read(&busybox).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&busybox, &bytes).unwrap();
    let sum = Command::new("sha256sum").arg(&busybox).output().unwrap().stdout;
    let sum = String::from_utf8(sum).unwrap();
    let mut message: serde_json::Value =
        serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    message["files"]["busybox"]["sha256"] = sum.split(' ').next().unwrap().into();
    fs::write(&manifest, message.to_string()).unwrap();
    let listed = finish(program().args(["lab", "cache", "list"]).env("PAGEWISE_CACHE", own.path()));
    assert!(!listed.out.contains("damaged"), "its manifest fits: {}", listed.out);

    let changed = verify(own.path());
    assert_eq!(changed.status, 3, "{}", changed.err);
    let listed = "trixie: NOT the files of Debian's signed packages: busybox; somebody or a fault";
    assert!(changed.out.starts_with(listed), "{}", changed.out);
}
