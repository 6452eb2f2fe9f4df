// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which nodes are next, and how many: the same for each controller that asks.

use sha2::{Digest as _, Sha256};

use crate::Profile;

/// A hash of what the profile changes. The limits and the pace are not part of it: they may be edited
/// during a roll-out.
#[must_use]
pub fn revision_of(profile: &Profile) -> String {
    let mut text = profile.uid.clone();
    for want in &profile.want {
        text.push('\n');
        text.push_str(want);
    }
    hash(&text)
}

/// The place of a node in the order of the roll-out: random, and the same each time.
pub(crate) fn place_of(revision: &str, node: &str) -> String {
    hash(&format!("{revision}\n{node}"))
}

fn hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Fewest nodes that a wave may be limited to: a comparison needs six pairs, and some nodes may refuse.
const LEAST_CONCURRENT: u32 = 10;

/// Number of nodes that are changed at the end of the next wave, if `changed` of `nodes` are now; `None`
/// if all are.
///
/// Until 1 % is reached, the number is never above 1 %, except that one node is always allowed. No wave
/// has more than `max_concurrent` nodes.
#[must_use]
pub fn next_target(profile: &Profile, changed: u32, nodes: u32) -> Option<u32> {
    if changed >= nodes {
        return None;
    }
    let percent = |percent: u32| match percent {
        100.. => nodes,
        _ => u32::try_from(u64::from(nodes) * u64::from(percent) / 100).unwrap_or(nodes),
    };
    let canary = profile.canary.min(percent(1)).max(1);
    let levels = std::iter::once(canary).chain(profile.waves.iter().map(|it| percent(*it)));
    // Whatever the waves are, all nodes are the last.
    let next = levels.chain([nodes]).find(|level| *level > changed)?;
    Some(next.min(changed.saturating_add(profile.max_concurrent.max(LEAST_CONCURRENT))).min(nodes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::step::tests::profile;

    fn targets(canary: u32, concurrent: u32, nodes: u32) -> Vec<u32> {
        let profile = Profile { canary, max_concurrent: concurrent, ..profile() };
        let mut all = Vec::new();
        while let Some(next) = next_target(&profile, all.last().copied().unwrap_or(0), nodes) {
            all.push(next);
        }
        all
    }

    #[test]
    fn waves_grow_from_the_canary_over_one_percent_to_all() {
        assert_eq!(targets(1, 500, 1000), [1, 10, 50, 250, 750, 1000]);
        assert_eq!(targets(5, 100, 1000)[..5], [5, 10, 50, 150, 250]);
        assert_eq!(targets(10, 50, 100), [1, 5, 25, 75, 100]);
        assert_eq!(targets(1, 50, 3), [1, 3]);
        assert_eq!(targets(1, 50, 0), [0; 0]);
    }

    proptest! {
        /// The first wave that exceeds 1 % (or one node) begins only when 1 % is reached; waves grow, end
        /// with all nodes, and none is larger than allowed.
        #[test]
        fn one_percent_comes_first(canary in 1u32..=10, concurrent in 1u32..500, nodes in 1u32..5000) {
            let all = targets(canary, concurrent, nodes);
            let first = (nodes / 100).max(1);
            prop_assert!(all[0] <= first);
            for pair in all.windows(2) {
                prop_assert!(pair[1] > pair[0] && pair[1] - pair[0] <= concurrent.max(10));
                prop_assert!(pair[1] <= first || pair[0] >= first);
            }
            prop_assert_eq!(*all.last().unwrap(), nodes);
        }
    }

    #[test]
    fn the_revision_is_of_what_is_changed_and_not_of_the_pace() {
        let one = profile();
        let revision = revision_of(&one);
        assert_eq!(revision_of(&Profile { canary: 7, paused: true, ..one.clone() }), revision);
        let want = vec!["zram".to_owned(), "swappiness=10".to_owned()];
        assert_ne!(revision_of(&Profile { want, ..one.clone() }), revision);
        assert_ne!(revision_of(&Profile { uid: "other".to_owned(), ..one }), revision);
    }
}
