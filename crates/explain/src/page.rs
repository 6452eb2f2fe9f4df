// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Building blocks of the pages.

use pagewise_model::{
    Bar, Bytes, Name, NamedValue, NextCommand, Pages, Percent, Quantity, Reading, Section,
    Snapshot, grouped,
};

/// A page that is being built.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) sections: Vec<Section>,
    pub(crate) next: Vec<NextCommand>,
}

impl Draft {
    pub(crate) fn text(&mut self, text: impl Into<String>) {
        self.sections.push(Section::Text { text: text.into() });
    }

    pub(crate) fn values(&mut self, title: impl Into<String>, values: Vec<NamedValue>) {
        self.sections.push(Section::Values { title: title.into(), values });
    }

    /// Adds bars; nothing if all of them are 0.
    pub(crate) fn bars(&mut self, title: impl Into<String>, bars: Vec<Bar>) {
        if bars.iter().any(|bar| bar.amount > 0) {
            self.sections.push(Section::Bars { title: title.into(), whole: None, bars });
        }
    }

    /// Adds shares of 100 %; nothing if none is known.
    pub(crate) fn shares(
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

    pub(crate) fn wrong(&mut self, claim: &'static str, fact: impl Into<String>) {
        self.sections.push(Section::Correction { claim, fact: fact.into() });
    }

    pub(crate) fn next(&mut self, command: impl Into<String>, shows: &'static str) {
        self.next.push(NextCommand { command: command.into(), shows });
    }
}

/// A Reading of the host as a value of the page, with the kernel's name.
pub(crate) fn value<T: Quantity + Clone>(name: &str, reading: &Reading<T>) -> NamedValue {
    NamedValue::new(name, reading)
}

/// The value of a setting, found in the knob table by its name.
pub(crate) fn setting(host: &Snapshot, name: &str) -> NamedValue {
    match host.knob(name) {
        Some(knob) => NamedValue { name: name.to_owned(), reading: active(knob) },
        None => NamedValue { name: name.to_owned(), reading: Reading::not_read() },
    }
}

/// The word that is active in a setting's file, if the file lists all choices with the active one
/// in brackets.
fn active(knob: &pagewise_model::knob::KnobReading) -> Reading<Name> {
    let active = knob.active().map(Name::from);
    knob.live.clone().map(|live| active.unwrap_or(live))
}

/// A counter of `/proc/vmstat` as a value of the page, counted since boot.
pub(crate) fn counter(host: &Snapshot, name: &str) -> NamedValue {
    count(name, host.vmstat.get(name))
}

/// A value with its name: a large number with thousands separators.
pub(crate) fn count(name: &str, reading: Reading<u64>) -> NamedValue {
    let reading = reading.map(|number| Name::from(grouped(number).as_str()));
    NamedValue { name: name.to_owned(), reading }
}

/// A number of pages as a size.
pub(crate) fn size(host: &Snapshot, pages: Pages) -> Bytes {
    Bytes::new(pages.get().saturating_mul(host.page_size().get()))
}

/// A bar for a size, if that is known.
pub(crate) fn bar(name: &str, size: Option<Bytes>) -> Option<Bar> {
    size.map(|size| Bar::new(name, size.to_string(), size.get()))
}

/// The bars whose sizes are known.
pub(crate) fn bars<const N: usize>(bars: [Option<Bar>; N]) -> Vec<Bar> {
    bars.into_iter().flatten().collect()
}
