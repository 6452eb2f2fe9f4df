// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sentences about a limit on the reads of a cgroup, which the rules `memory-pressure` and
//! `group-limit` mention as a cause.

use pagewise_facts::groups;
use pagewise_facts::io_limit::Throttled;

use crate::limit_change::find_container_id;
use crate::proof::EvidenceList;
use crate::text::{count, quoted};

/// Returns a sentence, with a leading space, that says which limit the group has reached and where
/// it is set.
pub(crate) fn describe(throttled: &Throttled<'_>) -> String {
    let Throttled { group, limit, .. } = throttled;
    let (path, device) = (&group.path, &limit.device);
    let pages = throttled.pages_per_second();
    let sentence = match throttled.bytes {
        Some(bytes) => format!(
            "{path} waits because of its io.max on {device}, which allows {bytes}/s of reads: it reads back {pages:.0} \
             pages per second that had been dropped or swapped out"
        ),
        None => format!(
            "{path} may wait because of its io.max on {device}, which allows {} reads per second: it reads back \
             {pages:.0} pages per second that had been dropped or swapped out",
            count(limit.requests.get().unwrap_or_default())
        ),
    };
    format!(" {sentence}{}.", describe_origin(throttled))
}

/// Returns the setting that makes the limit, if the path shows which program manages the group.
fn describe_origin(throttled: &Throttled<'_>) -> String {
    let path = throttled.group.path.as_str();
    let has_id = path.split('/').any(|part| find_container_id(part).is_some());
    let is_bytes = throttled.bytes.is_some();
    let option = if is_bytes { "--device-read-bps" } else { "--device-read-iops" };
    let property = if is_bytes { "IOReadBandwidthMax" } else { "IOReadIOPSMax" };
    if path.contains("kubepods") {
        String::new()
    } else if has_id {
        format!(" (set by {option} of docker or podman when the container was made)")
    } else {
        let unit = groups::unit_of_path(path);
        unit.map_or_else(String::new, |unit| format!(" ({property}= of {unit}, if systemd set it)"))
    }
}

/// Adds the limit and the pages that were read back to the evidence.
pub(crate) fn add_evidence(throttled: &Throttled<'_>, proof: EvidenceList) -> EvidenceList {
    let proof = match throttled.bytes {
        Some(_) => proof.named("rbps", &throttled.limit.bytes),
        None => proof.named("riops", &throttled.limit.requests),
    };
    throttled.refaults.iter().fold(proof, |proof, refaults| proof.change("refaults", refaults))
}

/// Returns the command that shows the limit.
pub(crate) fn command_that_shows(throttled: &Throttled<'_>) -> String {
    let path = quoted(throttled.limit.bytes.source.path());
    format!("cat {path}  # reads (r) and writes (w) per second that the group may make")
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Bytes, Cgroup, Change, IoLimit, Name, Source};

    use super::*;

    fn said(path: &str, bytes: Option<Bytes>) -> String {
        let group = Cgroup { path: Name::from(path), ..Cgroup::default() };
        let limit = IoLimit { device: Name::from("8:0"), ..IoLimit::default() };
        let source = Source::none();
        let refaults = vec![Change { delta: 5_000, per_second: 500.0, seconds: 10.0, source }];
        describe(&Throttled { group: &group, limit: &limit, bytes, refaults })
    }

    #[test]
    fn the_setting_is_named_in_the_words_of_the_owner() {
        let two = Some(Bytes::new(2 << 20));
        assert_eq!(
            said("/system.slice/db.service", two),
            " /system.slice/db.service waits because of its io.max on 8:0, which allows 2.0 MiB/s of reads: it reads back \
             500 pages per second that had been dropped or swapped out (IOReadBandwidthMax= of db.service, if \
             systemd set it)."
        );
        let docker = format!("/system.slice/docker-{}.scope", "ab".repeat(32));
        assert!(said(&docker, two).ends_with(
            "(set by --device-read-bps of docker or podman when the container was made)."
        ));
        assert!(said(&docker, None).contains("--device-read-iops"));
        let pod = format!("/kubepods.slice/cri-containerd-{}.scope", "ab".repeat(32));
        assert!(said(&pod, two).ends_with("swapped out."));
        assert!(said("/batch", None).contains("/batch may wait because of its io.max on 8:0"));
    }
}
