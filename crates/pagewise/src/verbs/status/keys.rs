// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Handles keys of the live view: changes what it shows next. Pure: no I/O.

use pagewise_model::LiveSubject;
use pagewise_report::live::LiveView;
use pagewise_terminal::live::Key;

/// Maximum length of a filter; names are not longer.
const LONGEST: usize = 64;

/// What the caller has to do after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyEffect {
    /// Only draw the view again.
    Shown,
    /// End the live view.
    Quit,
}

/// Handles a key; `rows` are the rows on the screen, which can be selected.
pub(super) fn press(view: &mut LiveView, key: Key, rows: &[LiveSubject]) -> KeyEffect {
    if view.is_typing {
        type_filter(view, key);
        return KeyEffect::Shown;
    }
    match key {
        Key::Char('q') => return KeyEffect::Quit,
        Key::Char(' ') => view.is_frozen = !view.is_frozen,
        Key::Char('s') => view.order = view.order.next(),
        Key::Char('?' | 'h') => view.shows_help = !view.shows_help,
        Key::Char('g') => {
            view.groups = !view.groups;
            (view.selected, view.open) = (None, None);
        }
        Key::Char('/') => (view.is_typing, view.open) = (true, None),
        Key::Up | Key::Char('k') if view.open.is_none() => move_selection(view, rows, row_above),
        Key::Down | Key::Char('j') if view.open.is_none() => move_selection(view, rows, row_below),
        Key::Enter if view.open.is_none() => open_row(view, rows),
        Key::Escape => go_back(view),
        _ => {}
    }
    KeyEffect::Shown
}

fn type_filter(view: &mut LiveView, key: Key) {
    match key {
        Key::Char(c) if view.filter.len() < LONGEST => view.filter.push(c),
        Key::Backspace => _ = view.filter.pop(),
        Key::Enter => view.is_typing = false,
        Key::Escape => {
            view.filter.clear();
            view.is_typing = false;
        }
        _ => {}
    }
}

/// Moves the selection by `step`; selects the first row if none is selected or the selected row is
/// gone.
fn move_selection(view: &mut LiveView, rows: &[LiveSubject], step: fn(usize) -> usize) {
    let at = rows.iter().position(|row| Some(row) == view.selected.as_ref());
    let next = at.map_or(0, step).min(rows.len().saturating_sub(1));
    view.selected = rows.get(next).cloned();
}

fn row_above(row: usize) -> usize {
    row.saturating_sub(1)
}

fn row_below(row: usize) -> usize {
    row.saturating_add(1)
}

/// Opens the selected row, or the first one if none is selected.
fn open_row(view: &mut LiveView, rows: &[LiveSubject]) {
    let selected = view.selected.as_ref().filter(|selected| rows.contains(selected));
    view.open = selected.or(rows.first()).cloned();
    view.selected.clone_from(&view.open);
}

/// Closes or clears what was opened last: help, an open row, the filter, or the selection.
fn go_back(view: &mut LiveView) {
    if view.shows_help {
        view.shows_help = false;
    } else if view.open.is_some() {
        view.open = None;
    } else if !view.filter.is_empty() {
        view.filter.clear();
    } else {
        view.selected = None;
    }
}

#[cfg(test)]
mod tests {
    use pagewise_model::{
        Bytes, HostVerdict, Interval, LiveDetail, LiveGroup, LiveProcess, LiveSample, Name,
    };
    use pagewise_report::live::{LiveFrame, LiveLine, LiveOrder, LiveWindow, shown_subjects};
    use pagewise_report::text;
    use proptest::prelude::*;

    use super::*;

    fn sample() -> LiveSample {
        let process = |pid, name: &str| LiveProcess {
            pid,
            name: Name::from(name),
            resident: Bytes::new(u64::from(pid) << 20),
            ..LiveProcess::default()
        };
        let group = |path: &str| LiveGroup { path: path.into(), ..LiveGroup::default() };
        LiveSample {
            processes: vec![process(1, "init"), process(7, "redis"), process(9, "漢字\x1b[2J")],
            groups: vec![group("/a"), group("/b.slice/c")],
            ..LiveSample::default()
        }
    }

    fn typed(view: &mut LiveView, text: &str) {
        let sample = sample();
        for c in text.chars() {
            let key = match c {
                '\n' => Key::Enter,
                '\x1b' => Key::Escape,
                '\x08' => Key::Backspace,
                '↑' => Key::Up,
                '↓' => Key::Down,
                c => Key::Char(c),
            };
            let rows = shown_subjects(&sample, view);
            press(view, key, &rows);
        }
    }

    #[test]
    fn rows_are_selected_opened_and_left() {
        let mut view = LiveView::default();
        typed(&mut view, "↓");
        assert_eq!(view.selected, Some(LiveSubject::Process(9)), "the largest is the first row");
        typed(&mut view, "↓↓↓↓↑\n");
        assert_eq!(view.open, Some(LiveSubject::Process(7)));
        typed(&mut view, "↓");
        assert_eq!(view.selected, Some(LiveSubject::Process(7)), "an open row stays");
        typed(&mut view, "\x1b");
        assert_eq!((view.open, view.selected), (None, Some(LiveSubject::Process(7))));
    }

    #[test]
    fn a_filter_takes_all_characters_until_enter() {
        let mut view = LiveView::default();
        typed(&mut view, "/resq\x08\x08\n");
        assert_eq!((view.filter.as_str(), view.is_typing), ("re", false));
        assert_eq!(shown_subjects(&sample(), &view), [LiveSubject::Process(7)]);
        typed(&mut view, "\x1b");
        assert_eq!(view, LiveView::default());
    }

    #[test]
    fn groups_orders_freeze_and_help() {
        let mut view = LiveView::default();
        typed(&mut view, "gs ?");
        assert!(view.groups && view.is_frozen && view.shows_help);
        assert_eq!(view.order, LiveOrder::Growth);
        typed(&mut view, "sss? g");
        assert_eq!(view, LiveView::default());
    }

    #[test]
    fn q_quits_but_not_while_a_filter_is_typed() {
        let mut view = LiveView::default();
        assert_eq!(press(&mut view, Key::Char('q'), &[]), KeyEffect::Quit);
        typed(&mut view, "/");
        assert_eq!(press(&mut view, Key::Char('q'), &[]), KeyEffect::Shown);
    }

    fn any_key() -> impl Strategy<Value = Key> {
        let known = prop::sample::select(vec!['q', ' ', 's', 'g', '/', '?', 'j', 'k', 'é', '漢']);
        let other =
            [Key::Up, Key::Down, Key::Left, Key::Home, Key::Enter, Key::Escape, Key::Backspace];
        prop_oneof![
            known.prop_map(Key::Char),
            any::<char>().prop_map(Key::Char),
            prop::sample::select(other.to_vec())
        ]
    }

    proptest! {
        /// For any keys and any window size, a frame has as many lines as its window, no line is
        /// wider than the window, and no line contains a control sequence for the terminal.
        #[test]
        fn any_keys_and_sizes_give_frames_that_fit(
            steps in prop::collection::vec((any_key(), 1usize..130, 1usize..50), 1..40),
            unicode: bool,
        ) {
            let (mut view, mut sample) = (LiveView::default(), sample());
            let (interval, verdict) = (Interval::default(), HostVerdict::default());
            for (key, width, height) in steps {
                let rows = shown_subjects(&sample, &view);
                press(&mut view, key, &rows);
                let process = || LiveDetail::Process(Box::default());
                sample.detail = view.open.as_ref().map(|_| process());
                let frame = LiveFrame {
                    interval: &interval, verdict: &verdict, sample: &sample, pressure: &[0.0, 50.0],
                    pressure_seconds: 2.0, kills: None, view: &view, replay: None,
                };
                let window = LiveWindow { width, height, colour: false, unicode };
                let lines = text::live(&frame, window);
                prop_assert_eq!(lines.len(), height);
                for line in lines.iter().map(LiveLine::text) {
                    prop_assert!(text::width(&line) <= width, "{} > {}: {:?}", text::width(&line), width, line);
                    prop_assert!(!line.contains(char::is_control), "{line:?}");
                    prop_assert!(unicode || line.is_ascii(), "{line:?}");
                }
            }
        }
    }
}
