// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `merge --when-calm`: waits until PSI shows that a merge pass disturbs nobody.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pagewise_decide::calm::{Unrest, unrest};
use pagewise_model::{Psi, Refusal};
use pagewise_observe::HostRoot;
use pagewise_terminal::Global;
use pagewise_terminal::interrupt::{Interrupted, Stop};
use pagewise_terminal::progress::Idling;

/// Time between two readings of PSI; the kernel updates its averages every two seconds.
const LOOK: Duration = Duration::from_secs(1);
/// The longest sleep while waiting for a calm machine, so that Ctrl-C is noticed in time.
const NAP: Duration = Duration::from_millis(100);

/// Waits until the machine is calm, and returns for how many seconds it waited.
pub(super) fn wait_until_calm(
    global: &Global,
    host: &HostRoot,
    most: Duration,
    stop: &Stop,
) -> anyhow::Result<f64> {
    let started = Instant::now();
    let shown = Idling::start(global);
    loop {
        let Some(why) = why_not_calm(&pagewise_observe::psi(host))? else {
            return Ok(started.elapsed().as_secs_f64());
        };
        if started.elapsed() >= most {
            let what = format!(
                "no calm moment within {} s: {why}; nothing was merged",
                most.as_secs_f64()
            );
            anyhow::bail!(Refusal::with_advice(
                what,
                "give it more --timeout, or merge without --when-calm"
            ));
        }
        shown.show_reason(&why);
        sleep_briefly(stop, started)?;
    }
}

fn sleep_briefly(stop: &Stop, started: Instant) -> anyhow::Result<()> {
    let woken = Instant::now() + LOOK;
    while Instant::now() < woken {
        if stop.flag().load(Ordering::Relaxed) {
            anyhow::bail!(Interrupted { after: started.elapsed() });
        }
        std::thread::sleep(NAP);
    }
    Ok(())
}

/// Why the machine is not calm, in words; `None` if it is.
fn why_not_calm(psi: &Psi) -> anyhow::Result<Option<String>> {
    match unrest(psi) {
        None => Ok(None),
        Some(Unrest::Waits { resource, percent, most }) => Ok(Some(format!(
            "tasks waited for {resource} {percent:.0} % of the last 10 s (at most {most:.0} %)"
        ))),
        Some(Unrest::Unknown { path }) => {
            let what = format!("{path}: this kernel has no PSI, so no moment is known to be calm");
            anyhow::bail!(Refusal::with_advice(
                what,
                "boot with psi=1, or merge without --when-calm"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use pagewise_observe::Entry;

    use super::*;

    fn psi(cpu: &str, memory: &str) -> Psi {
        let file = |name: &str, some: &str| {
            let text = format!("some avg10={some} avg60=0.00 avg300=0.00 total=1\n");
            (format!("proc/pressure/{name}"), Entry::File(text.into_bytes()))
        };
        pagewise_observe::psi(&HostRoot::memory([file("cpu", cpu), file("memory", memory)]))
    }

    #[test]
    fn what_tasks_wait_for_is_named() {
        assert_eq!(why_not_calm(&psi("20.00", "1.00")).unwrap(), None);
        let memory = why_not_calm(&psi("0.00", "14.20")).unwrap().unwrap();
        assert_eq!(memory, "tasks waited for memory 14 % of the last 10 s (at most 1 %)");
        let busy = why_not_calm(&psi("61.00", "0.00")).unwrap().unwrap();
        assert_eq!(busy, "tasks waited for a CPU 61 % of the last 10 s (at most 20 %)");
    }

    #[test]
    fn without_psi_no_moment_is_known_to_be_calm() {
        let error = why_not_calm(&Psi::default()).unwrap_err();
        assert!(error.to_string().contains("has no PSI"), "{error}");
    }
}
