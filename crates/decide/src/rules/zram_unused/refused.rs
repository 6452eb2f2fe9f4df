// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A reason why zram is not used: zram-generator rejects a line of its configuration. It then sets
//! up no device at all, not even those of its other files.

use pagewise_model::{Finding, Interval, RefusedLine, ZramUse};

use super::{RULE, severity};
use crate::proof::EvidenceList;
use crate::text::{mark_writing_with_undo, quoted, shorten_title};

pub(super) fn reason(interval: &Interval) -> Option<Finding> {
    let host = &interval.end;
    let refused = host.configuration.refused.as_ref()?;
    let text = refused.line.value()?;
    // if there is a device, somebody else set it up, or the file was changed after boot
    let is_set_up = |used_as: Option<&ZramUse>| {
        used_as.is_none_or(|used_as| !matches!(used_as, ZramUse::NotInitialised))
    };
    if host.compressed_devices().any(|device| is_set_up(device.used_as.value())) {
        return None;
    }
    let place = &refused.line.source;
    let device = host.compressed_devices().next();
    let proof = EvidenceList::new().named("refused line", &refused.line);
    let proof = match device {
        Some(device) => proof.value(&device.disksize),
        None => proof,
    };
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: severity(interval),
        title: shorten_title(format!(
            "zram-generator refuses {}: it sets up no zram",
            place.path().rsplit('/').next().unwrap_or_default()
        )),
        what: format!("{place} is \"{text}\", but {}.{}", refused.why, suggest_line(refused)),
        why: "An error in any of its files ends zram-generator before it creates a unit, so none of the \
              configured devices is set up. Only the log of the boot has its message."
            .to_owned(),
        evidence: proof.into_evidence(),
        next: next(refused),
    })
}

fn suggest_line(refused: &RefusedLine) -> String {
    match &refused.mended {
        Some(line) => format!(" With the line \"{line}\", zram-generator would accept the file."),
        None => String::new(),
    }
}

fn next(refused: &RefusedLine) -> Vec<String> {
    let look = "journalctl -b -o cat -g zram-generator".to_owned();
    let place = &refused.line.source;
    let (Some(line), Some(number)) = (&refused.mended, place.line_number()) else {
        return vec![look];
    };
    // the command c of sed takes the rest of the line as text, in which only a backslash is special
    let script = format!("{number}c\\{}", line.as_str().replace('\\', "\\\\"));
    let path = quoted(place.path());
    // no copy that an administrator made has this suffix
    let copy = quoted(&format!("{}.before-pagewise", place.path()));
    let change = format!("sudo sed -i.before-pagewise {} {path}", quoted(&script));
    let undo = format!("sudo mv {copy} {path}");
    vec![mark_writing_with_undo(change, "permanent, from the next boot on", &undo), look]
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::{Bytes, Name};

    use super::*;
    use crate::rules::zram_unused::tests::device;
    use crate::testing::{assert_silent, line, mib, only, still};

    fn refused(text: &str, mended: Option<&str>) -> RefusedLine {
        RefusedLine {
            line: line("/etc/systemd/zram-generator.conf", 2, Name::from(text)),
            why: "the value is no expression that zram-generator can evaluate",
            mended: mended.map(Name::from),
        }
    }

    pub(crate) fn host_with_finding() -> Interval {
        let mut host = device(ZramUse::NotInitialised, Bytes::new(0));
        host.configuration.refused =
            Some(refused("zram-size = ram / 2 # half", Some("zram-size = ram / 2")));
        still(host)
    }

    #[test]
    fn the_line_and_the_one_that_is_accepted_are_named() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(finding.title, "zram-generator refuses zram-generator.conf: it sets up no zram");
        assert!(finding.what.contains("zram-generator.conf:2 is \"zram-size = ram / 2 # half\""));
        assert!(finding.next[0].contains("'2c\\zram-size = ram / 2'"), "{}", finding.next[0]);
    }

    #[test]
    fn a_device_that_somebody_set_up_is_no_finding_and_without_a_mended_line_no_command() {
        let mut host = device(ZramUse::Swap { priority: 5 }, mib(30));
        host.configuration.refused = Some(refused("`", None));
        let mut interval = still(host);
        assert!(reason(&interval).is_none());
        interval.end.zram.clear();
        assert_eq!(reason(&interval).unwrap().next.len(), 1);
        interval.end.configuration.refused = None;
        interval.end.zram = vec![];
        assert!(reason(&interval).is_none());
        assert_silent(&RULE, &still(device(ZramUse::Nothing, mib(30))));
    }
}
