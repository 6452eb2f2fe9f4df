// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every signal that asks a program to end has the effect of Ctrl-C: temporary changes are undone,
//! and no core is dumped.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::held::Held;
use crate::machine::{Place, read, run};

const ENDING: [&str; 4] = ["-QUIT", "-HUP", "-TERM", "-INT"];
const KNOB: &str = "/proc/sys/vm/extfrag_threshold";

/// A process that is killed when the test ends.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn wait_until(&mut self, so: impl Fn() -> bool) {
        let until = Instant::now() + Duration::from_secs(60);
        while !so() {
            assert!(Instant::now() < until, "waited for a minute");
            assert_eq!(self.0.try_wait().unwrap(), None, "it has ended before");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn end(mut self, signal: &str) -> ExitStatus {
        run("kill", &[signal, &self.0.id().to_string()]);
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                assert_eq!(status.signal(), None, "{signal}");
                return status;
            }
            assert!(Instant::now() < until, "{signal}: it did not end within a minute");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn bench_gives_its_devices_back_whatever_signal_ends_it() {
    let place = Place::new();
    for signal in ENDING {
        let words = ["bench", "--size", "4M", "--mix", "text:100", "--no-swap"];
        let mut bench = Running::start(&mut place.command(&words));
        bench.wait_until(|| place.lent.has_zram());
        assert_eq!(bench.end(signal).code(), Some(130), "{signal}");
        assert_eq!(place.lent.there(), [], "{signal}");
    }
}

#[test]
fn a_trial_sets_back_whatever_signal_ends_it() {
    let (place, before) = (Place::new(), read(KNOB));
    for signal in ENDING {
        let arms = ["--a", "vm.extfrag_threshold=401", "--b", "vm.extfrag_threshold=402"];
        let words = [&["trial"][..], &arms, &["--", "sleep", "987"]].concat();
        let mut trial = Running::start(&mut place.command(&words));
        trial.wait_until(|| read(KNOB) != before);
        assert_eq!(trial.end(signal).code(), Some(130), "{signal}");
        assert_eq!(read(KNOB), before, "{signal}");
    }
}

#[test]
fn a_collapse_that_watches_ends_in_order_whatever_signal_ends_it() {
    let place = Place::new();
    for signal in ENDING {
        let held = Held::start("map 8 1 1");
        let pid = held.pid().to_string();
        let words = ["thp", "collapse", "--pid", &pid, "--watch", "--every", "200ms"];
        let mut collapse = Running::start(&mut place.command(&words));
        collapse.wait_until(|| held.huge() >= 8 * 1024);
        assert_eq!(collapse.end(signal).code(), Some(0), "{signal}");
    }
}
