// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds seccomp programs (classic BPF) from a list of allowed system calls, with seccompiler.
//!
//! A call that no rule allows fails with EPERM; a call through another architecture's table kills
//! the process. A program sees the number and the argument values of a call, never what a pointer
//! refers to.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// When a system call is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Always.
    Always,
    /// If these bits of the lower half of an argument have this value.
    Bits { argument: u8, mask: u32, value: u32 },
    /// If the lower half of an argument is one of these.
    OneOf { argument: u8, values: &'static [u32] },
    /// If all bits of an argument are zero.
    Zero { argument: u8 },
    /// Never; the call fails with this error instead of EPERM.
    Refused { errno: u32 },
}

/// One system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) number: u32,
    pub(crate) condition: Condition,
}

const EPERM: u32 = libc::EPERM as u32;

/// The rules of seccompiler for one call, of which one must match; without rules it always matches.
type Chain = Vec<SeccompRule>;

/// The architecture of this program; `None` if seccompiler does not know it.
pub(crate) fn architecture() -> Option<TargetArch> {
    TargetArch::try_from(std::env::consts::ARCH).ok()
}

/// Builds the programs, all of which are to be applied. A program of seccompiler has one result for
/// the calls that match and one for all others, so calls that fail with another error need a
/// program of their own.
pub(crate) fn build_programs(
    architecture: TargetArch,
    rules: &[Rule],
) -> Result<Vec<BpfProgram>, seccompiler::BackendError> {
    let (mut allowed, mut programs) = (BTreeMap::new(), Vec::new());
    for rule in rules {
        let number = i64::from(rule.number);
        if let Condition::Refused { errno } = rule.condition {
            let refused = BTreeMap::from([(number, Chain::new())]);
            let action = SeccompAction::Errno(errno);
            let filter = SeccompFilter::new(refused, SeccompAction::Allow, action, architecture)?;
            programs.push(filter.try_into()?);
        }
        if let Some(chain) = build_chain(rule.condition)? {
            allowed.insert(number, chain);
        }
    }
    let refused = SeccompAction::Errno(EPERM);
    programs.push(
        SeccompFilter::new(allowed, refused, SeccompAction::Allow, architecture)?.try_into()?,
    );
    Ok(programs)
}

/// The rules of seccompiler for a condition; `None` if the condition never holds. A call that has
/// to fail with another error than EPERM is allowed here, because a separate program refuses it.
fn build_chain(condition: Condition) -> Result<Option<Chain>, seccompiler::BackendError> {
    use SeccompCmpArgLen::{Dword, Qword};
    use SeccompCmpOp::{Eq, MaskedEq};
    let rule = |argument, length, operator, value| {
        SeccompRule::new(vec![SeccompCondition::new(argument, length, operator, value)?])
    };
    let chain = match condition {
        Condition::Always | Condition::Refused { .. } => return Ok(Some(Chain::new())),
        // seccompiler ignores the bits of a value that are not in the mask
        Condition::Bits { mask, value, .. } if value & !mask != 0 => return Ok(None),
        Condition::Bits { argument, mask, value } => {
            vec![rule(argument, Dword, MaskedEq(mask.into()), value.into())?]
        }
        Condition::OneOf { argument, values } => {
            let rules = values.iter().map(|&value| rule(argument, Dword, Eq, value.into()));
            rules.collect::<Result<_, _>>()?
        }
        Condition::Zero { argument } => vec![rule(argument, Qword, Eq, 0)?],
    };
    Ok(Some(chain).filter(|chain| !chain.is_empty()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seccompiler::sock_filter;

    use super::*;

    /// `AUDIT_ARCH_X86_64` of `linux/audit.h`.
    const X86_64: u32 = 0xc000_003e;
    /// Offsets of the call's number and architecture in `struct seccomp_data`. The arguments follow
    /// at offset 16, eight bytes each, lower half first.
    const NUMBER: u32 = 0;
    const ARCH: u32 = 4;
    const ARGUMENTS: u32 = 16;

    const LOAD: u16 = 0x20;
    const AND: u16 = 0x54;
    const JUMP: u16 = 0x05;
    const EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;

    const ALLOW: u32 = 0x7fff_0000;
    const ERROR: u32 = 0x0005_0000;
    const KILL: u32 = 0x8000_0000;

    /// A system call as the program sees it.
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

    /// Runs all programs as the kernel would: the latest first, and the most severe action counts.
    fn run_all(programs: &[BpfProgram], call: &Call) -> u32 {
        let severity = |answer: &u32| i32::from_ne_bytes((answer & 0xffff_0000).to_ne_bytes());
        let answers = programs.iter().rev().map(|program| run(program, call));
        answers.min_by_key(severity).unwrap()
    }

    fn run(program: &[sock_filter], call: &Call) -> u32 {
        let (mut at, mut held) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            match code {
                LOAD => held = call.word(k),
                AND => held &= k,
                JUMP => at += k as usize,
                EQUAL => at += usize::from(if held == k { jt } else { jf }),
                RETURN => return k,
                other => panic!("code {other}"),
            }
        }
    }

    /// The result according to the rules.
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
        /// The programs decide as the rules say, for every call.
        #[test]
        fn the_programs_do_what_the_rules_say(
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
            let call = Call { number, architecture: X86_64, arguments };
            let programs = build_programs(TargetArch::x86_64, &rules).unwrap();
            prop_assert_eq!(run_all(&programs, &call), naive(&rules, &call));
            let foreign = Call { architecture: X86_64 + 1, ..call };
            prop_assert_eq!(run_all(&programs, &foreign), KILL);
        }
    }
}
