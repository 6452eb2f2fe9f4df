// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Temporary changes (loans) with other kernels: with cgroup v2, whose memory controller must first
//! be enabled for children, and with zram as a module that is not loaded.

use std::path::Path;

use crate::boot::{UNTIL_SENT, script};
use crate::example::into_guest;

/// Sets the guest up as a distribution would, and records what loans may change.
pub(crate) const MACHINE: &str = r#"
    set -e
    rmmod zram
    home=/lib/modules/$(uname -r)
    mkdir -p $home
    for module in /modules/*; do cp $module $home/${module##*/}.ko; done
    depmod
    echo -memory > /sys/fs/cgroup/cgroup.subtree_control
    state() {
        ls -d /sys/block/zram* /sys/module/zram /sys/fs/cgroup/pagewise-* 2> /dev/null || true
        cat /proc/swaps /proc/sys/vm/swappiness /sys/fs/cgroup/cgroup.subtree_control
    }
    export PAGEWISE_STATE=/state
    state > /before
"#;

pub(crate) const KILLED: &str = r#"
    mkfifo /open
    /borrow once zram:lz4 swap group member vm.swappiness=70 < /open > /told 2>&1 &
    exec 3> /open
    for try in $(seq 1200); do grep -q ready /told && break; sleep 0.1; done
    cat /told
    state > /during
    ! cmp -s /before /during
    grep -q zram0 /proc/swaps
    echo limit $(cat /sys/fs/cgroup/pagewise-*/memory.max)
    kill -9 $!
    wait $! || true
    pagewise undo
    state > /after
    cmp /before /after
    pagewise undo
"#;

/// A session that ends by itself also undoes its changes; one that cannot start says why and leaves
/// nothing behind.
const MISSING: &str = r"
    /borrow once zram group < /dev/null
    state > /after
    cmp /before /after
    rm -r /lib/modules
    ! /borrow once zram < /dev/null 2>&1
    ! /borrow once file:/tmp swap < /dev/null 2>&1
    state > /after
    cmp /before /after
    ls /state /tmp
";

/// Waits until all output was sent, then crashes the kernel.
const PANIC: &str = "
    until_all_is_sent
    echo c > /proc/sysrq-trigger
    sleep 60
";

/// The output of a guest of the suite until its kernel panicked.
fn told(suite: &str, options: &[&str], what: &str) -> String {
    let borrow = into_guest("borrow");
    let options = ["--kernel", suite].into_iter().chain(options.iter().copied());
    let options = options.chain(borrow.iter().map(String::as_str));
    let ran = script(&options.collect::<Vec<_>>(), &format!("{UNTIL_SENT}{MACHINE}{what}{PANIC}"));
    assert_eq!(ran.status, 125, "{suite}: {}{}", ran.out, ran.err);
    assert!(ran.err.contains("the kernel panicked: sysrq triggered crash"), "{}", ran.err);
    ran.out
}

pub(crate) fn a_killed_run_is_given_back(text: &str) {
    assert!(text.contains("limit 8458240"), "{text}");
    let order = ["vm.swappiness", "memory cgroup", "memory controller", "swap on", "zram device"];
    let mut rest = text;
    for what in order.into_iter().chain(["module zram"]) {
        let line = rest.lines().find(|line| line.trim_start().starts_with(what));
        let line = line.unwrap_or_else(|| panic!("{what} in order: {text}"));
        assert!(line.ends_with(": put back"), "{line}");
        rest = &rest[rest.find(line).unwrap()..];
    }
    assert!(text.contains("nothing to put back\n"), "{text}");
}

/// After the undo the guest is as before, so the script then takes away what loans need, and the
/// messages say what is missing.
#[test]
fn guest_of_bookworm_has_back_what_a_killed_run_borrowed_and_says_what_is_missing_until_it_panics()
{
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let options = ["--kernel-log", log.to_str().unwrap()];
    let explanation = told("bookworm", &options, &format!("{KILLED}echo missing:\n{MISSING}"));
    let (killed, missing) =
        explanation.split_once("missing:\n").unwrap_or_else(|| panic!("{explanation}"));
    a_killed_run_is_given_back(killed);
    assert!(killed.ends_with("nothing to put back\n"), "{killed}");
    assert!(missing.contains("returned module zram Returned"), "{missing}");
    assert!(missing.contains("its module does not load"), "{missing}");
    assert!(missing.contains("its file system holds no swap"), "{missing}");
    assert!(missing.ends_with("/state:\nlock\n\n/tmp:\n"), "{missing}");
    the_log_is_whole(&log);
}

/// An existing log is not overwritten, and no guest is started.
fn the_log_is_whole(log: &Path) {
    let text = String::from_utf8_lossy(&std::fs::read(log).unwrap()).into_owned();
    for wanted in ["Linux version 6.1", "Command line: ", "Run /init", "sysrq triggered crash"] {
        assert!(text.contains(wanted), "no {wanted} in {text}");
    }
    let again = script(&["--kernel", "bookworm", "--kernel-log", log.to_str().unwrap()], "true");
    let refused = again.err.contains("expected no file of that name");
    assert!(again.status == 1 && refused, "{}", again.err);
}

#[test]
fn guest_of_trixie_has_back_what_a_killed_run_borrowed_until_it_panics() {
    a_killed_run_is_given_back(&told("trixie", &[], KILLED));
}

#[test]
fn guest_of_sid_has_back_what_a_killed_run_borrowed_until_it_panics() {
    a_killed_run_is_given_back(&told("sid", &[], KILLED));
}
