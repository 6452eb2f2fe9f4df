// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds a seccomp program (classic BPF) from a list of allowed system calls.
//!
//! A call that no rule allows fails with EPERM; a call through another architecture's table kills
//! the process. The program sees the number and the argument values of a call, never what a pointer
//! refers to.

/// One instruction of a filter program: `struct sock_filter`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    operand: u32,
}

/// When a system call is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// The call is always allowed.
    Always,
    /// The call is allowed if these bits of the lower half of an argument have this value.
    Bits { argument: u8, mask: u32, value: u32 },
    /// The call is allowed if the lower half of an argument is one of these values.
    OneOf { argument: u8, values: &'static [u32] },
    /// The call is allowed if all bits of an argument are zero.
    Zero { argument: u8 },
    /// The call is never allowed, and fails with this error instead of EPERM.
    Refused { errno: u32 },
}

/// The rule for one system call: its number, and when it is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) number: u32,
    pub(crate) condition: Condition,
}

/// The architecture that the kernel states to the filter: `AUDIT_ARCH_*` of `linux/audit.h`.
#[cfg(target_arch = "x86_64")]
pub(crate) const ARCHITECTURE: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
pub(crate) const ARCHITECTURE: Option<u32> = Some(0xc000_00b7);
#[cfg(target_arch = "riscv64")]
pub(crate) const ARCHITECTURE: Option<u32> = Some(0xc000_00f3);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub(crate) const ARCHITECTURE: Option<u32> = None;

/// Offsets of the call's number and architecture in `struct seccomp_data`. The arguments follow at
/// offset 16, eight bytes each, lower half first: all supported architectures are little-endian.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const ERROR: u32 = 0x0005_0000;
const KILL: u32 = 0x8000_0000;
const EPERM: u32 = 1;

const fn load(at: u32) -> Instruction {
    Instruction { code: LOAD, if_true: 0, if_false: 0, operand: at }
}

const fn and(mask: u32) -> Instruction {
    Instruction { code: AND, if_true: 0, if_false: 0, operand: mask }
}

const fn equal(value: u32, if_true: u8, if_false: u8) -> Instruction {
    Instruction { code: EQUAL, if_true, if_false, operand: value }
}

const fn return_instruction(action: u32) -> Instruction {
    Instruction { code: RETURN, if_true: 0, if_false: 0, operand: action }
}

/// The offset of the lower half of an argument; the upper half is four bytes after it.
const fn low(argument: u8) -> u32 {
    ARGUMENTS + 8 * argument as u32
}

/// The filter program for these rules; calls of the first rules are the cheapest.
pub(crate) fn program(architecture: u32, rules: &[Rule]) -> Vec<Instruction> {
    let mut program =
        vec![load(ARCH), equal(architecture, 1, 0), return_instruction(KILL), load(NUMBER)];
    for rule in rules {
        let then = consequence(rule.condition);
        let skipped = u8::try_from(then.len()).unwrap_or(u8::MAX);
        program.push(equal(rule.number, 0, skipped));
        program.extend(then);
    }
    program.push(return_instruction(ERROR | EPERM));
    program
}

/// The instructions for a call whose number matches the rule; they always end with a return.
fn consequence(condition: Condition) -> Vec<Instruction> {
    const REFUSED: Instruction = return_instruction(ERROR | EPERM);
    const ALLOWED: Instruction = return_instruction(ALLOW);
    match condition {
        Condition::Always => vec![ALLOWED],
        Condition::Refused { errno } => vec![return_instruction(ERROR | errno)],
        Condition::Bits { argument, mask, value } => {
            vec![load(low(argument)), and(mask), equal(value, 0, 1), ALLOWED, REFUSED]
        }
        Condition::Zero { argument } => vec![
            load(low(argument)),
            equal(0, 0, 3),
            load(low(argument) + 4),
            equal(0, 0, 1),
            ALLOWED,
            REFUSED,
        ],
        Condition::OneOf { argument, values } => {
            let mut then = vec![load(low(argument))];
            for &value in values {
                then.extend([equal(value, 0, 1), ALLOWED]);
            }
            then.push(REFUSED);
            then
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A system call as the filter program sees it.
    #[derive(Debug, Clone, Copy)]
    struct Call {
        number: u32,
        architecture: u32,
        arguments: [u64; 6],
    }

    impl Call {
        fn word(&self, at: u32) -> u32 {
            let half = |value: u64, high: bool| {
                u32::try_from(if high { value >> 32 } else { value & 0xffff_ffff }).unwrap()
            };
            match at {
                NUMBER => self.number,
                ARCH => self.architecture,
                _ => {
                    let place = at - ARGUMENTS;
                    half(self.arguments[place as usize / 8], place % 8 == 4)
                }
            }
        }
    }

    /// Runs a filter program as the kernel would.
    fn run(program: &[Instruction], call: &Call) -> u32 {
        let (mut at, mut held) = (0, 0);
        loop {
            let Instruction { code, if_true, if_false, operand } = program[at];
            at += 1;
            match code {
                LOAD => held = call.word(operand),
                AND => held &= operand,
                EQUAL => at += usize::from(if held == operand { if_true } else { if_false }),
                RETURN => return operand,
                other => panic!("code {other}"),
            }
        }
    }

    /// The result that the rules demand for a call.
    fn naive(rules: &[Rule], call: &Call) -> u32 {
        let low = |argument: u8| call.arguments[usize::from(argument)] & 0xffff_ffff;
        let Some(rule) = rules.iter().find(|rule| rule.number == call.number) else {
            return ERROR | EPERM;
        };
        let allowed = match rule.condition {
            Condition::Always => true,
            Condition::Bits { argument, mask, value } => {
                low(argument) & u64::from(mask) == u64::from(value)
            }
            Condition::OneOf { argument, values } => {
                values.iter().any(|value| u64::from(*value) == low(argument))
            }
            Condition::Zero { argument } => call.arguments[usize::from(argument)] == 0,
            Condition::Refused { errno } => return ERROR | errno,
        };
        if allowed { ALLOW } else { ERROR | EPERM }
    }

    fn condition() -> impl Strategy<Value = Condition> {
        let values = prop::sample::select(vec![&[][..], &[1], &[0, 2, 3], &[7, 5, 1, 0]]);
        prop_oneof![
            Just(Condition::Always),
            (0u8..6, 0u32..8, 0u32..8).prop_map(|(argument, mask, value)| Condition::Bits {
                argument,
                mask,
                value
            }),
            (0u8..6, values).prop_map(|(argument, values)| Condition::OneOf { argument, values }),
            (0u8..6).prop_map(|argument| Condition::Zero { argument }),
            (1u32..40).prop_map(|errno| Condition::Refused { errno }),
        ]
    }

    proptest! {
        /// The program decides as the rules say, for every call.
        #[test]
        fn the_program_does_what_the_rules_say(
            conditions in prop::collection::vec(condition(), 0..8),
            number in 0u32..10,
            arguments in prop::array::uniform6(
                prop_oneof![0u64..8, (0u64..8).prop_map(|low| low | 1 << 32), any::<u64>()]
            ),
        ) {
            let rules: Vec<Rule> = (0..)
                .zip(conditions)
                .map(|(number, condition)| Rule { number, condition })
                .collect();
            let call = Call { number, architecture: 5, arguments };
            let program = program(5, &rules);
            prop_assert_eq!(run(&program, &call), naive(&rules, &call));
            let foreign = Call { architecture: 6, ..call };
            prop_assert_eq!(run(&program, &foreign), KILL);
        }
    }
}
