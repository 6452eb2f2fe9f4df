// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a loop does about a target now and why, as a sentence, and which kind of sentence the log has.

/// The state of a target. A sentence with numbers changes in each interval; the log gets it only if its
/// kind is another one than that of the last sentence in the log.
#[derive(Debug)]
pub(super) struct TargetState {
    text: String,
    logged: String,
}

impl TargetState {
    /// The state before the first reading, which is not logged.
    pub(super) fn new() -> Self {
        Self { text: "waits for the first reading".to_owned(), logged: String::new() }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Changes the sentence without a line in the log.
    pub(super) fn show(&mut self, text: impl Into<String>) {
        self.text = text.into();
    }

    /// Changes the sentence. True if it belongs in the log, because its kind is a new one.
    pub(super) fn set(&mut self, text: impl Into<String>, kind: &str) -> bool {
        self.show(text);
        self.mark_logged(kind)
    }

    /// Whether the last sentence in the log is of this kind.
    pub(super) fn is_logged(&self, kind: &str) -> bool {
        self.logged == kind
    }

    /// Takes the kind as that of the last sentence in the log. True if it was another one before.
    pub(super) fn mark_logged(&mut self, kind: &str) -> bool {
        let is_new = self.logged != kind;
        kind.clone_into(&mut self.logged);
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_gets_a_sentence_when_its_kind_changes() {
        let mut state = TargetState::new();
        assert!(!state.is_logged("few"));
        assert!(state.set("waits: 3 refaults/s", "few"));
        assert!(!state.set("waits: 4 refaults/s", "few"));
        assert_eq!((state.text(), state.is_logged("few")), ("waits: 4 refaults/s", true));
        state.show("watches");
        assert!(!state.set("waits: 5 refaults/s", "few"), "what is only shown is not in the log");
        assert!(state.mark_logged("takes") && !state.mark_logged("takes"));
        assert!(state.set("waits: 6 refaults/s", "few"));
    }
}
