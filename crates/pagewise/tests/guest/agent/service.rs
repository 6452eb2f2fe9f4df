// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The service of the packages under systemd: its narrowed rights suffice for both loops, it reads its
//! configuration again, and it goes on after it was killed.

use std::path::Path;

use crate::boot::{SAY, answer, answer_of_success, finish, lab};

/// zram0 of this guest is its swap. Another device is filled with pages that cannot be compressed.
const SCRIPT: &str = r#"
unit=pagewise-agent
number=$(cat /sys/class/zram-control/hot_add)
z=/sys/block/zram$number
echo /dev/vda > $z/backing_dev
echo 32M > $z/disksize
dd if=/dev/urandom of=/dev/zram$number bs=1M count=16 oflag=direct 2> /dev/null
mkdir -p /etc/pagewise
printf '[budget]\ncpu_seconds_per_minute = 40\n' > /etc/pagewise/agent.toml
until_done() {
    looks=0
    until [ "$(eval "$1")" = "$2" ] || [ $looks -ge 240 ]; do sleep 0.5; looks=$((looks + 1)); done
}
say start systemctl start $unit
say nothing pagewise agent status
printf "[zram.zram$number]"'\nidle_after = "2s"\ninterval = "2s"\nflash_per_day = "8M"\n' >> /etc/pagewise/agent.toml
say reload systemctl reload $unit
until_done "awk '{ print \$3 }' $z/bd_stat" 2048
say first cat $z/bd_stat
pid=$(systemctl show --property MainPID --value $unit)
systemctl kill --signal KILL $unit
sed -i 's/8M/12M/; s/^\[aging.*//' /etc/pagewise/agent.toml
printf '[aging."/system.slice/systemd-journald.service"]\ninterval = "2s"\n' >> /etc/pagewise/agent.toml
until_done "awk '{ print \$3 }' $z/bd_stat" 3072
say second cat $z/bd_stat
until_done "pagewise agent status | grep -q 'waits: 0 refaults/s' && echo yes" yes
say both pagewise agent status
mv /etc/pagewise/agent.toml /etc/pagewise/away
systemctl reload $unit
until_done "journalctl -u $unit -o cat | grep -q 'does not exist any more' && echo yes" yes
say kept pagewise agent status
say restarted test "$pid" != "$(systemctl show --property MainPID --value $unit)"
say stop systemctl stop $unit
say result systemctl show --property Result,NRestarts $unit
say limit cat $z/writeback_limit_enable
say log journalctl -u $unit -o cat --no-pager
say score systemd-analyze security --no-pager --threshold 25 $unit.service
"#;

#[test]
fn guest_systemd_runs_the_agent_with_narrowed_rights() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../packaging/systemd/pagewise-agent.service");
    let file = format!("--file={}:/etc/systemd/system/pagewise-agent.service", unit.display());
    let common = ["--quiet", "--userland=systemd", "--memory", "384M", "--disk", "64M"];
    let script = format!("{SAY}{SCRIPT}");
    let rest = ["--deadline", "8m", &file, "--", "sh", "-c", &script];
    let ran = finish(&mut lab(&[&common[..], &rest[..]].concat()));
    let session = format!("{}\n{}", ran.out, ran.err);
    for name in ["start", "reload", "restarted", "stop", "score"] {
        assert_eq!(answer(&session, name).1, "0", "{name}: {session}");
    }
    assert!(answer_of_success(&session, "nothing").contains("runs as process"), "{session}");
    let written = |name| answer_of_success(&session, name).split_whitespace().nth(2).unwrap();
    assert_eq!((written("first"), written("second")), ("2048", "3072"), "{session}");
    let both = answer_of_success(&session, "both");
    assert!(both.contains("zram zram1") && both.contains("waits: 0 refaults/s"), "{both}");
    // without its file, the agent keeps what the file said
    let kept = answer_of_success(&session, "kept");
    assert!(kept.contains("zram zram1") && kept.contains("stays in force"), "{kept}");
    assert_eq!(answer_of_success(&session, "limit"), "0\n", "{session}");
    let result = answer_of_success(&session, "result");
    assert!(result.contains("Result=success"), "{result}");
    let log = answer_of_success(&session, "log");
    assert!(log.contains("read its configuration again") && log.contains("wrote "), "{log}");
}
