// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loans on other kernels: with cgroup version 2 whose controller has to be handed down first, and
//! with zram as a module that is not loaded.

use crate::boot::script;
use crate::example::into_guest;

/// A machine as a distribution installs it, and what loans may change of it.
const MACHINE: &str = r#"
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

const KILLED: &str = r#"
    mkfifo /hold
    /borrow once zram:lz4 swap group member vm.swappiness=70 < /hold > /told 2>&1 &
    exec 3> /hold
    for try in $(seq 300); do grep -q ready /told && break; sleep 0.1; done
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

fn told(suite: &str, what: &str) -> String {
    let borrow = into_guest("borrow");
    let options = ["--kernel", suite].into_iter().chain(borrow.iter().map(String::as_str));
    let ran = script(&options.collect::<Vec<_>>(), &format!("{MACHINE}{what}"));
    assert_eq!(ran.status, 0, "{suite}: {}{}", ran.out, ran.err);
    ran.out
}

#[test]
fn guest_of_every_suite_has_back_what_a_killed_run_borrowed() {
    for suite in ["bookworm", "trixie", "sid"] {
        let told = told(suite, KILLED);
        assert!(told.contains("limit 8458240"), "{suite}: {told}");
        let order =
            ["vm.swappiness", "memory cgroup", "memory controller", "swap on", "zram device"];
        let mut rest = told.as_str();
        for what in order.into_iter().chain(["module zram"]) {
            let line = rest.lines().find(|line| line.trim_start().starts_with(what));
            let line = line.unwrap_or_else(|| panic!("{suite}: {what} in order: {told}"));
            assert!(line.ends_with(": put back"), "{suite}: {line}");
            rest = &rest[rest.find(line).unwrap()..];
        }
        assert!(told.ends_with("nothing to put back\n"), "{suite}: {told}");
    }
}

/// A session that ends by itself gives back too; one that cannot begin says why and leaves nothing.
#[test]
fn guest_whose_module_or_file_system_is_missing_says_so_and_keeps_nothing() {
    let told = told(
        "bookworm",
        r"
        /borrow once zram group < /dev/null
        state > /after
        cmp /before /after
        rm -r /lib/modules
        ! /borrow once zram < /dev/null 2>&1
        ! /borrow once file:/tmp swap < /dev/null 2>&1
        state > /after
        cmp /before /after
        ls /state /tmp
        ",
    );
    assert!(told.contains("returned module zram Returned"), "{told}");
    assert!(told.contains("its module does not load"), "{told}");
    assert!(told.contains("its file system holds no swap"), "{told}");
    assert!(told.ends_with("/state:\nlock\n\n/tmp:\n"), "{told}");
}
