// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits for a moment in which a pass disturbs nobody: by what PSI says of the last ten seconds.
//!
//! A pass needs a processor for a while and hardly any memory. So both may be waited for a little, and
//! what waits for a disk does not matter.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pagewise_model::{Percent, Psi, Reading, Refusal};
use pagewise_observe::HostRoot;

use crate::cli::Global;
use crate::interrupt::Stop;
use crate::progress::Idling;
use crate::trouble::Interrupted;

/// Some task waits for a processor for so many percent of the time: on average more than one is wanted
/// for each that there is only now and then.
const MOST_CPU: f64 = 20.0;
/// Some task waits for memory.
const MOST_MEMORY: f64 = 1.0;
/// PSI's averages move every two seconds.
const LOOK: Duration = Duration::from_secs(1);
/// How soon Ctrl-C is answered.
const NAP: Duration = Duration::from_millis(100);

/// Waits; answers for how many seconds.
pub(super) fn wait(
    global: &Global,
    host: &HostRoot,
    most: Duration,
    stop: &Stop,
) -> anyhow::Result<f64> {
    let started = Instant::now();
    let shown = Idling::start(global);
    loop {
        let Some(why) = restless(&pagewise_observe::psi(host))? else {
            return Ok(started.elapsed().as_secs_f64());
        };
        if started.elapsed() >= most {
            let what = format!(
                "no calm moment within {} s: {why}; nothing was merged",
                most.as_secs_f64()
            );
            anyhow::bail!(Refusal::advised(
                what,
                "give it more --timeout, or merge without --when-calm"
            ));
        }
        shown.because(&why);
        nap(stop, started)?;
    }
}

fn nap(stop: &Stop, started: Instant) -> anyhow::Result<()> {
    let woken = Instant::now() + LOOK;
    while Instant::now() < woken {
        if stop.flag().load(Ordering::Relaxed) {
            anyhow::bail!(Interrupted { after: started.elapsed() });
        }
        std::thread::sleep(NAP);
    }
    Ok(())
}

/// Why this is no calm moment.
fn restless(psi: &Psi) -> anyhow::Result<Option<String>> {
    let averages = [
        ("memory", &psi.memory.some.avg10, MOST_MEMORY),
        ("a processor", &psi.cpu.some.avg10, MOST_CPU),
    ];
    for (what, average, most) in averages {
        let percent = known(average)?;
        if percent > most {
            let told = format!(
                "somebody waited for {what} {percent:.0} % of the last 10 s (at most {most:.0} %)"
            );
            return Ok(Some(told));
        }
    }
    Ok(None)
}

fn known(average: &Reading<Percent>) -> anyhow::Result<f64> {
    let unknown = || {
        let what = format!(
            "{}: this kernel does not say who waits, so no moment is known to be calm",
            average.source.path()
        );
        Refusal::advised(what, "boot with psi=1, or merge without --when-calm")
    };
    Ok(average.get().ok_or_else(unknown)?.get())
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
    fn waiting_for_memory_or_a_processor_is_no_calm_moment() {
        assert_eq!(restless(&psi("20.00", "1.00")).unwrap(), None);
        let memory = restless(&psi("0.00", "14.20")).unwrap().unwrap();
        assert_eq!(memory, "somebody waited for memory 14 % of the last 10 s (at most 1 %)");
        let busy = restless(&psi("61.00", "0.00")).unwrap().unwrap();
        assert_eq!(busy, "somebody waited for a processor 61 % of the last 10 s (at most 20 %)");
    }

    #[test]
    fn without_psi_no_moment_is_known_to_be_calm() {
        let error = restless(&Psi::default()).unwrap_err();
        assert!(error.to_string().contains("does not say who waits"), "{error}");
    }
}
