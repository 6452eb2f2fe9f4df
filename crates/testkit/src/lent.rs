// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines from a folder of journals which temporary changes (loans) runs of the program have
//! made, and which of these still exist.
//!
//! If the parent folder of the journals contains a folder `ended`, a debug build of the program
//! moves the journals of runs that have ended into it; a release build deletes them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::note_made;
use crate::thing::Thing;

/// The temporary changes (loans) of runs whose journals are in one folder.
#[derive(Debug)]
pub struct Lent {
    state: PathBuf,
}

impl Lent {
    /// Follows the loans of runs that from now on get this folder as `PAGEWISE_STATE`. Creates the
    /// folder.
    ///
    /// # Panics
    /// If the folder cannot be created.
    #[must_use]
    pub fn by_runs_in(state: &Path) -> Self {
        let mut private = fs::DirBuilder::new();
        private.recursive(true).mode(0o700).create(state.join("ended")).expect("a folder of state");
        note_made(&Thing::Journals(state.to_owned()));
        Self { state: state.to_owned() }
    }

    /// Returns all temporary changes that a journal has listed so far: zram devices, swap, swap
    /// files, cgroups.
    #[must_use]
    pub fn all(&self) -> BTreeSet<Thing> {
        let folders = [self.state.clone(), self.state.join("ended")];
        let files = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten());
        // a file may be renamed or removed while the folder is read
        let texts = files.flatten().filter_map(|file| fs::read_to_string(file.path()).ok());
        texts.flat_map(|text| things_in_journal(&text)).collect()
    }

    /// Returns the loans that still exist.
    #[must_use]
    pub fn there(&self) -> Vec<Thing> {
        self.all().into_iter().filter(Thing::is_there).collect()
    }

    /// Whether a zram device exists now that a run created.
    #[must_use]
    pub fn has_zram(&self) -> bool {
        self.there().iter().any(|thing| matches!(thing, Thing::Zram { .. }))
    }

    /// Whether a swap area is enabled now that a run enabled.
    #[must_use]
    pub fn has_swap(&self) -> bool {
        self.there().iter().any(|thing| matches!(thing, Thing::Swap { .. }))
    }

    /// Asserts that runs have created a zram device, and that none of their loans exists any more.
    /// # Panics
    /// If one of these is not true.
    #[track_caller]
    pub fn assert_zram_went_back(&self) {
        let all = self.all();
        let is_zram = |thing: &Thing| matches!(thing, Thing::Zram { .. });
        assert!(all.iter().any(is_zram), "no zram device was lent: {all:?}");
        assert_eq!(self.there(), []);
    }
}

/// Writes all loans to a list for a second check at the end of all tests, when the folder of
/// journals does not exist any more.
impl Drop for Lent {
    fn drop(&mut self) {
        self.all().iter().for_each(note_made);
    }
}

/// Returns the loans that the records of one journal list. A line without a complete record is the
/// last line of a run that was killed.
fn things_in_journal(journal: &str) -> Vec<Thing> {
    let records = journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    records.filter_map(|line| thing(&line["record"])).collect()
}

fn thing(record: &Value) -> Option<Thing> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if record["event"] == "made" {
        let number = u32::try_from(record["device"]["number"].as_u64()?).ok()?;
        return Some(Thing::Zram { number, diskseq: record["device"]["diskseq"].as_u64()? });
    }
    let what = &record["what"];
    match what["kind"].as_str()? {
        "swap-on" => {
            Some(Thing::Swap { area: text(&what["area"])?, diskseq: what["diskseq"].as_u64() })
        }
        "swap-file" => Some(Thing::Path(text(&what["path"])?.into())),
        "group" => Some(Thing::Path(text(&what["folder"])?.into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_names_what_was_lent() {
        let journal = r#"{"record":{"event":"began","boot_id":"b","pid":1,"unix_seconds":1,"pagewise":"1"},"crc32":"0"}
{"record":{"event":"taking","loan":1,"what":{"kind":"zram","others":[0],"newest_diskseq":8,"announced":1}},"crc32":"0"}
{"record":{"event":"made","loan":1,"device":{"number":2,"diskseq":9}},"crc32":"0"}
{"record":{"event":"taking","loan":2,"what":{"kind":"swap-on","area":"/dev/zram2","diskseq":9}},"crc32":"0"}
{"record":{"event":"taking","loan":3,"what":{"kind":"swap-file","path":"/x","folder_inode":2}},"crc32":"0"}
{"record":{"event":"taking","loan":4,"what":{"kind":"group","folder":"/g","home":null}},"crc32":"0"}
{"record":{"event":"tak"#;
        let area = "/dev/zram2".to_owned();
        let expected = [
            Thing::Zram { number: 2, diskseq: 9 },
            Thing::Swap { area, diskseq: Some(9) },
            Thing::Path("/x".into()),
            Thing::Path("/g".into()),
        ];
        assert_eq!(things_in_journal(journal), expected);
    }

    #[test]
    fn journals_of_runs_that_have_ended_count_too() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let lent = Lent::by_runs_in(&state);
        assert_eq!(lent.all(), BTreeSet::new());
        let journal = |path: &Path| {
            let path = path.display();
            format!(
                r#"{{"record":{{"event":"taking","loan":1,"what":{{"kind":"group","folder":"{path}"}}}}}}"#
            )
        };
        let (gone, there) = (folder.path().join("gone"), folder.path().to_owned());
        fs::write(state.join("1.b.journal"), journal(&gone)).unwrap();
        fs::write(state.join("ended/1-1.b.journal"), journal(&there)).unwrap();
        assert_eq!(lent.all().len(), 2);
        assert_eq!(lent.there(), [Thing::Path(there)]);
        assert!(!lent.has_zram() && !lent.has_swap());
    }
}
