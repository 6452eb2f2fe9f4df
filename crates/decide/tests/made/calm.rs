// SPDX-License-Identifier: Apache-2.0 OR MIT
use pagewise_decide::calm::{Unrest, unrest};
use pagewise_model::{Percent, Psi, Reading, Source};

fn psi(cpu: f64, memory: f64) -> Psi {
    let reading = |percent| Reading::found(Percent::new(percent), Source::none());
    let mut psi = Psi::default();
    psi.cpu.some.avg10 = reading(cpu);
    psi.memory.some.avg10 = reading(memory);
    psi
}

#[test]
fn waiting_for_memory_or_a_cpu_is_not_calm() {
    assert_eq!(unrest(&psi(20.0, 1.0)), None);
    let memory = Unrest::Waits { resource: "memory", percent: 14.2, most: 1.0 };
    assert_eq!(unrest(&psi(61.0, 14.2)), Some(memory));
    let cpu = Unrest::Waits { resource: "a CPU", percent: 61.0, most: 20.0 };
    assert_eq!(unrest(&psi(61.0, 0.0)), Some(cpu));
}

#[test]
fn without_psi_no_moment_is_known_to_be_calm() {
    assert!(matches!(unrest(&Psi::default()), Some(Unrest::Unknown { .. })));
}
