// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints the kernel's features as node labels in the format of node-feature-discovery's local
//! feature files: a line `NAMESPACE/NAME=VALUE` for each, and comments after `#`. Source:
//! node-feature-discovery, customization guide, "Local feature source".

use pagewise_model::{FeatureState, Snapshot};

const NAMESPACE: &str = "pagewise.dev";
/// The label for whether programs get huge pages without asking: a kernel may support them but
/// never allocate them.
const THP: &str = "thp.enabled";

/// A line of labels for each feature that was probed.
pub fn feature_labels(snapshot: &Snapshot) -> String {
    let mut lines = String::from("# Written by pagewise capabilities --labels\n");
    for capability in &snapshot.capabilities {
        lines += &line(capability.feature, &capability.state);
    }
    if let Some(enabled) = snapshot.thp.enabled.value().filter(|it| is_value(it.active.as_str())) {
        lines += &format!("{NAMESPACE}/{THP}={}\n", enabled.active);
    }
    lines
}

/// The label of a feature; a feature in an unknown state gets none.
fn line(feature: &str, state: &FeatureState) -> String {
    let value = match state {
        FeatureState::Present => "true",
        FeatureState::Loadable { .. } => "module",
        FeatureState::Off { .. } => "off",
        FeatureState::NotBuilt { .. } | FeatureState::Missing => "false",
        FeatureState::OutsideContainer => {
            return format!("# {NAMESPACE}/{feature}: not known, it belongs to the host outside\n");
        }
        FeatureState::Denied => {
            return format!("# {NAMESPACE}/{feature}: not known, only root may look\n");
        }
    };
    format!("{NAMESPACE}/{feature}={value}\n")
}

/// Whether Kubernetes accepts this text as the value of a label: at most 63 letters, digits, `-`,
/// `_` and `.`.
fn is_value(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=63).contains(&text.len()) && text.chars().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Capability;

    fn labels(states: Vec<(&'static str, FeatureState)>) -> String {
        let capability =
            |(feature, state)| Capability { feature, doc: "", state, evidence: vec![] };
        let capabilities = states.into_iter().map(capability).collect();
        feature_labels(&Snapshot { capabilities, ..Snapshot::default() })
    }

    #[test]
    fn every_state_has_its_line() {
        let all = labels(vec![
            ("a", FeatureState::Present),
            ("b", FeatureState::Loadable { module: "m" }),
            ("c", FeatureState::NotBuilt { option: "o" }),
            ("d", FeatureState::Off { switch: "s" }),
            ("e", FeatureState::Missing),
            ("f", FeatureState::Denied),
            ("g", FeatureState::OutsideContainer),
        ]);
        let lines: Vec<&str> = all.lines().skip(1).collect();
        let expected = [
            "pagewise.dev/a=true",
            "pagewise.dev/b=module",
            "pagewise.dev/c=false",
            "pagewise.dev/d=off",
            "pagewise.dev/e=false",
            "# pagewise.dev/f: not known, only root may look",
            "# pagewise.dev/g: not known, it belongs to the host outside",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_value_that_is_no_label_is_left_out() {
        for bad in ["", "a b", "a\nb", "é", &"a".repeat(64)] {
            assert!(!is_value(bad), "{bad:?}");
        }
        assert!(is_value("madvise"));
    }
}
