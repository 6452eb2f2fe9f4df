// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions with which the pages are built.

use pagewise_model::{
    Bar, Bytes, Name, NamedValue, NextCommand, Pages, Percent, Quantity, Reading, Section,
    Snapshot, group_digits,
};

/// A page that is being built.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) sections: Vec<Section>,
    pub(crate) next: Vec<NextCommand>,
}

impl Draft {
    pub(crate) fn add_text(&mut self, text: impl Into<String>) {
        self.sections.push(Section::Text { text: text.into() });
    }

    pub(crate) fn add_values(&mut self, title: impl Into<String>, values: Vec<NamedValue>) {
        self.sections.push(Section::Values { title: title.into(), values });
    }

    /// Adds a bar chart; adds nothing if all bars are 0.
    pub(crate) fn add_bars(&mut self, title: impl Into<String>, bars: Vec<Bar>) {
        if bars.iter().any(|bar| bar.amount > 0) {
            self.sections.push(Section::Bars { title: title.into(), whole: None, bars });
        }
    }

    /// Adds a chart of percentages, in which a full bar means 100 %; adds nothing if no percentage
    /// is known.
    pub(crate) fn add_shares(
        &mut self,
        title: impl Into<String>,
        shares: &[(&str, &Reading<Percent>)],
    ) {
        let bar = |(name, reading): &(&str, &Reading<Percent>)| {
            let share = reading.get()?.get();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
            let amount = (share.clamp(0.0, 100.0) * 100.0) as u64;
            Some(Bar::new(*name, format!("{share:.2} %"), amount))
        };
        let bars: Vec<Bar> = shares.iter().filter_map(bar).collect();
        if !bars.is_empty() {
            self.sections.push(Section::Bars { title: title.into(), whole: Some(100 * 100), bars });
        }
    }

    pub(crate) fn add_correction(&mut self, claim: &'static str, fact: impl Into<String>) {
        self.sections.push(Section::Correction { claim, fact: fact.into() });
    }

    pub(crate) fn add_command(&mut self, command: impl Into<String>, shows: &'static str) {
        self.next.push(NextCommand { command: command.into(), shows });
    }
}

/// Converts a Reading of the host to a value of the page, with the kernel's name.
pub(crate) fn value<T: Quantity + Clone>(name: &str, reading: &Reading<T>) -> NamedValue {
    NamedValue::new(name, reading)
}

/// Returns the value of a setting, by its name in the table of settings.
pub(crate) fn setting(host: &Snapshot, name: &str) -> NamedValue {
    match host.knob(name) {
        Some(knob) => NamedValue { name: name.to_owned(), reading: active_word(knob) },
        None => NamedValue { name: name.to_owned(), reading: Reading::not_read() },
    }
}

/// Returns the active word of a setting, if its file lists all words with the active one in
/// brackets.
fn active_word(knob: &pagewise_model::knob::KnobReading) -> Reading<Name> {
    let active = knob.active_word().map(Name::from);
    knob.live.clone().map(|live| active.unwrap_or(live))
}

/// Returns a counter of `/proc/vmstat` as a value of the page; it counts since boot.
pub(crate) fn counter(host: &Snapshot, name: &str) -> NamedValue {
    count(name, host.vmstat.get(name))
}

/// Formats a number with thousands separators as a value of the page.
pub(crate) fn count(name: &str, reading: Reading<u64>) -> NamedValue {
    let reading = reading.map(|number| Name::from(group_digits(number).as_str()));
    NamedValue { name: name.to_owned(), reading }
}

/// Returns the size of this number of pages.
pub(crate) fn size(host: &Snapshot, pages: Pages) -> Bytes {
    Bytes::new(pages.get().saturating_mul(host.page_size().get()))
}

/// Creates a bar for a size, if the size is known.
pub(crate) fn bar(name: &str, size: Option<Bytes>) -> Option<Bar> {
    size.map(|size| Bar::new(name, size.to_string(), size.get()))
}

/// Returns those of the bars that could be created.
pub(crate) fn add_bars<const N: usize>(bars: [Option<Bar>; N]) -> Vec<Bar> {
    bars.into_iter().flatten().collect()
}
