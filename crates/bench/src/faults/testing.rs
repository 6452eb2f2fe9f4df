// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Made-up rounds for tests.

use pagewise_model::{Access, Compressor, SwappedKind};
use proptest::prelude::*;

use super::rows::{Done, Key};
use super::spec::FaultSpec;
use super::task::{Round, Times};

pub(super) fn fault_spec() -> FaultSpec {
    FaultSpec::usual(vec![Compressor::new("lz4")], 100)
}

/// Any selection of the combinations, each at most once in a round.
pub(super) fn any_rounds() -> impl Strategy<Value = Vec<Done>> {
    let one = prop::option::of((0.1..1e6f64, 0u64..1_000_000, 0u64..100, 0u64..100));
    prop::collection::vec(one, 6 * 24).prop_map(|drawn| {
        let made = |((round, key), drawn): ((u32, Key), Option<_>)| {
            let (mean_ns, own_ns, major_faults, swapped_in) = drawn?;
            let times = Times { mean_ns, ..Times::default() };
            let counts = Round { touches: 1, out: swapped_in, ..Round::default() };
            let figures = Round { times, own_ns, major_faults, swapped_in, ..counts };
            Some(Done { round, key, figures })
        };
        combinations().into_iter().zip(drawn).filter_map(made).collect()
    })
}

fn combinations() -> Vec<(u32, Key)> {
    let mut all = Vec::new();
    for round in 1..=6 {
        for memory in [SwappedKind::Private, SwappedKind::Forked, SwappedKind::Shmem] {
            for access in [Access::Sequential, Access::Random] {
                let key = |cluster| (round, Key { store: 0, memory, access, cluster });
                all.extend((0..4).map(key));
            }
        }
    }
    all
}
