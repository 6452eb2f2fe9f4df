// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the kernel configuration, for the options that Pagewise needs to know.
//!
//! `/proc/config.gz` belongs to the running kernel; `/boot/config-RELEASE` and the copy that some
//! distributions keep beside the modules belong to the kernel of that release. Only the lines of
//! those options are kept or recorded, because a configuration also contains the host name and keys
//! of its builder. All other lines become empty lines, so that line numbers are those of the real
//! file.
//!
//! An option that a configuration does not mention is off, but this is concluded only from a file
//! that looks complete.

use std::io::{BufRead, BufReader, Read};

use pagewise_model::{Evidence, Reading, Source};

use pagewise_hostfs::text::{Text, lines, number};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues, absolute_path};

/// Every kernel configuration option that pagewise asks for, sorted.
pub(crate) const ASKED: &[&str] = &[
    "CONFIG_COMPACTION",
    "CONFIG_CRYPTO_ZSTD",
    "CONFIG_DAMON_LRU_SORT",
    "CONFIG_DAMON_RECLAIM",
    "CONFIG_DAMON_STAT",
    "CONFIG_DAMON_SYSFS",
    "CONFIG_HUGETLB_PAGE",
    "CONFIG_IDLE_PAGE_TRACKING",
    "CONFIG_KSM",
    "CONFIG_LRU_GEN",
    "CONFIG_MEMCG",
    "CONFIG_MIGRATION",
    "CONFIG_NUMA",
    "CONFIG_NUMA_BALANCING",
    "CONFIG_PSI",
    "CONFIG_SWAP",
    "CONFIG_TRANSPARENT_HUGEPAGE",
    "CONFIG_USERFAULTFD",
    "CONFIG_ZRAM",
    "CONFIG_ZRAM_MEMORY_TRACKING",
    "CONFIG_ZRAM_MULTI_COMP",
    "CONFIG_ZRAM_TRACK_ENTRY_ACTIME",
    "CONFIG_ZRAM_WRITEBACK",
    CHAIN_SIZE,
    "CONFIG_ZSWAP",
];

/// The only kernel configuration option that is read as a number.
pub(crate) const CHAIN_SIZE: &str = "CONFIG_ZSMALLOC_CHAIN_SIZE";

/// At most this many unpacked bytes of a configuration are read; that of a distribution has 0.3
/// MiB.
const MAX_PLAIN: u64 = 4 << 20;

/// A file with fewer options is a fragment, or our own recorded excerpt: an option missing from it
/// is not known to be off. The smallest real configurations have several hundred.
const WHOLE: usize = 200;

/// How an excerpt marks an option that the complete file did not mention.
const MISSING: &[u8] = b"is missing";

/// How an option is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Built {
    /// Built into the kernel: `=y`.
    In,
    /// Built as a module: `=m`.
    Module,
    /// The value of an option that is a number: `=8`.
    Number(u64),
    /// The option is off, or not mentioned by a complete configuration.
    Not,
}

/// The options of a kernel configuration for which an answer is known, with the lines that show it.
#[derive(Debug, Default)]
pub(crate) struct Kconfig(Vec<(&'static str, Built, Evidence)>);

impl Kconfig {
    /// Reads the first kernel configuration that is readable; empty if there is none.
    pub(crate) fn read(host: &HostRoot) -> Self {
        let readable = list_paths(host).into_iter().find_map(|path| {
            let kept = host.excerpt(&path, excerpt).ok()?;
            Some(Text::new(&absolute_path(&path), kept))
        });
        readable.map(|text| parse(&text)).unwrap_or_default()
    }

    /// How `option` is set, and the line that shows it; `None` if unknown.
    pub(crate) fn get(&self, option: &str) -> Option<(Built, &Evidence)> {
        let (_, built, evidence) = self.0.iter().find(|(name, ..)| *name == option)?;
        Some((*built, evidence))
    }

    /// Whether no kernel configuration could be read.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number that a kernel configuration option is set to.
    pub(crate) fn number(&self, option: &str) -> Reading<u64> {
        match self.get(option) {
            Some((Built::Number(number), evidence)) => {
                let line = evidence.line.unwrap_or_default();
                Reading::found(number, Source::line(evidence.path.as_str(), line))
            }
            Some(_) => Reading::absent(format!("this kernel has no {option}"), Source::none()),
            None => Reading::absent("no configuration tells", Source::none()),
        }
    }

    /// Whether `option` is known to be set, for a module or into the kernel.
    pub(crate) fn has(&self, option: &str) -> bool {
        self.get(option).is_some_and(|(built, _)| built != Built::Not)
    }
}

/// The configuration of this host, read once: it does not change while the kernel runs.
pub(crate) fn kconfig(host: &HostRoot) -> &Kconfig {
    static NONE: Kconfig = Kconfig(Vec::new());
    host.get_or_compute(Kconfig::read).unwrap_or(&NONE)
}

fn list_paths(host: &HostRoot) -> Vec<String> {
    let mut paths = vec!["proc/config.gz".to_owned()];
    if let Some(release) = release(host) {
        paths.push(format!("boot/config-{release}"));
        paths.push(format!("lib/modules/{release}/config"));
    }
    paths
}

/// The kernel release, as used in paths.
pub(crate) fn release(host: &HostRoot) -> Option<String> {
    let release = host.name_at("proc/sys/kernel/osrelease");
    let name = release.value()?.as_str();
    (!name.contains('/') && !name.starts_with('.')).then(|| name.to_owned())
}

/// Keeps the lines of the options that pagewise asks for at their line numbers, and marks options
/// that are missing.
fn excerpt(raw: &[u8]) -> Vec<u8> {
    let mut excerpt = Excerpt { kept: Vec::with_capacity(16 << 10), ..Excerpt::default() };
    if raw.starts_with(&[0x1f, 0x8b]) {
        let plain = flate2::bufread::GzDecoder::new(raw).take(MAX_PLAIN);
        excerpt.take_all(BufReader::with_capacity(PIECE, plain));
    } else {
        excerpt.take_all(raw);
    }
    excerpt.finish()
}

/// Size of the pieces in which the configuration is unpacked, because a complete one would be a
/// large temporary allocation.
const PIECE: usize = 16 << 10;

#[derive(Default)]
struct Excerpt {
    kept: Vec<u8>,
    seen: [bool; ASKED.len()],
    options: usize,
    /// The beginning of a line that continues in the next piece.
    open: Vec<u8>,
    is_complete: bool,
}

impl Excerpt {
    fn take_all(&mut self, mut plain: impl BufRead) {
        // output produced before an error is still valid
        while let Some(piece) = plain.fill_buf().ok().filter(|piece| !piece.is_empty()) {
            let length = piece.len();
            self.take_piece(piece);
            plain.consume(length);
        }
        if !self.open.is_empty() {
            let last = std::mem::take(&mut self.open);
            self.take(&last);
        }
    }

    fn take_piece(&mut self, piece: &[u8]) {
        self.is_complete = piece.ends_with(b"\n");
        let Some(end) = memchr::memrchr(b'\n', piece) else {
            return self.open.extend_from_slice(piece);
        };
        let (whole, rest) = (&piece[..end], &piece[end + 1..]);
        let mut begun = std::mem::replace(&mut self.open, rest.to_vec());
        let mut lines = lines(whole);
        begun.extend_from_slice(lines.next().unwrap_or_default());
        self.take(&begun);
        lines.for_each(|line| self.take(line));
    }

    fn take(&mut self, line: &[u8]) {
        if let Some((name, _)) = split_option(line) {
            self.options += 1;
            if let Some(at) = option_index(name) {
                self.seen[at] = true;
                self.kept.extend_from_slice(line);
            }
        }
        self.kept.push(b'\n');
    }

    fn finish(mut self) -> Vec<u8> {
        let speaks = self.is_complete && self.options >= WHOLE;
        for (name, _) in ASKED.iter().zip(self.seen).filter(|(_, seen)| !seen && speaks) {
            self.kept.extend_from_slice(&[b"# ", name.as_bytes(), b" ", MISSING, b"\n"].concat());
        }
        self.kept
    }
}

/// Splits a line into the option's name, without `CONFIG_`, and the rest.
fn split_option(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let from = line.strip_prefix(b"# ").unwrap_or(line).strip_prefix(PREFIX.as_bytes())?;
    let end = memchr::memchr2(b'=', b' ', from)?;
    Some(from.split_at(end))
}

const PREFIX: &str = "CONFIG_";

/// Index in [`ASKED`] of the option with this name. The first two letters rule out most of the
/// thousands of other options.
fn option_index(name: &[u8]) -> Option<usize> {
    let may_be = |at: usize, letters: u128| {
        name.get(at).is_some_and(|&letter| letters >> (letter & 127) & 1 == 1)
    };
    if !may_be(0, const { letter_set(0) }) || !may_be(1, const { letter_set(1) }) {
        return None;
    }
    let bare = |known: &'static str| known.as_bytes().get(PREFIX.len()..).unwrap_or_default();
    ASKED.binary_search_by(|known| bare(known).cmp(name)).ok()
}

/// The set of letters at position `at` of all names in [`ASKED`], one bit each.
const fn letter_set(at: usize) -> u128 {
    let mut letters = 0;
    let mut next = 0;
    while next < ASKED.len() {
        letters |= 1 << (ASKED[next].as_bytes()[PREFIX.len() + at] & 127);
        next += 1;
    }
    letters
}

fn parse(text: &Text) -> Kconfig {
    let answers = text.lines().filter_map(|line| {
        let (name, rest) = split_option(line.bytes)?;
        let name = ASKED[option_index(name)?];
        let (built, value, at) = match rest.trim_ascii() {
            b"=y" => (Built::In, format!("{name}=y"), line.source()),
            b"=m" => (Built::Module, format!("{name}=m"), line.source()),
            b"is not set" | b"=n" => (Built::Not, format!("{name} is not set"), line.source()),
            MISSING => {
                (Built::Not, format!("no {name}"), Source::file(line.source().path().to_owned()))
            }
            rest => {
                let value = number(rest.strip_prefix(b"=")?)?;
                (Built::Number(value), format!("{name}={value}"), line.source())
            }
        };
        Some((name, built, Evidence::new(&at, value)))
    });
    Kconfig(answers.collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;
    use crate::testing;
    use pagewise_hostfs::Entry;

    fn gzip(plain: &str) -> Vec<u8> {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gz.write_all(plain.as_bytes()).unwrap();
        gz.finish().unwrap()
    }

    fn whole() -> String {
        let filler: String = (0..WHOLE).map(|n| format!("CONFIG_FILLER_{n}=y\n")).collect();
        format!("{filler}CONFIG_ZRAM=m\n# CONFIG_ZRAM_WRITEBACK is not set\nCONFIG_PSI=y\n")
    }

    fn host(path: &str, bytes: Vec<u8>) -> HostRoot {
        testing::host([(path, bytes), ("proc/sys/kernel/osrelease", b"6.12.107\n".to_vec())])
    }

    #[test]
    fn the_asked_options_are_sorted() {
        assert!(ASKED.is_sorted());
    }

    #[test]
    fn every_asked_option_is_found_and_no_other() {
        for (at, name) in ASKED.iter().enumerate() {
            let line = format!("{name}=y");
            let (bare, _) = split_option(line.as_bytes()).unwrap();
            assert_eq!(option_index(bare), Some(at), "{name}");
            assert_eq!(option_index(&[bare, b"X"].concat()), None, "{name}");
            assert_eq!(option_index(&bare[..bare.len() - 1]), None, "{name}");
        }
        assert_eq!(
            (option_index(b""), option_index(b"K"), option_index(b"\xcb\xd3M")),
            (None, None, None)
        );
    }

    #[test]
    fn a_packed_configuration_answers_with_its_own_line_numbers() {
        let host = host("proc/config.gz", gzip(&whole()));
        let (built, evidence) = kconfig(&host).get("CONFIG_ZRAM").unwrap();
        assert_eq!(built, Built::Module);
        assert_eq!(evidence.path, "/proc/config.gz");
        assert_eq!(evidence.line, Some(201));
        let (built, evidence) = kconfig(&host).get("CONFIG_ZRAM_WRITEBACK").unwrap();
        assert_eq!((built, evidence.line), (Built::Not, Some(202)));
        assert_eq!(evidence.value, "CONFIG_ZRAM_WRITEBACK is not set");
    }

    #[test]
    fn an_option_may_be_a_number() {
        let config = format!("{}CONFIG_ZSMALLOC_CHAIN_SIZE=8\n", whole());
        let host = host("boot/config-6.12.107", config.into_bytes());
        let number = kconfig(&host).number(CHAIN_SIZE);
        assert_eq!((number.get(), number.source.line_number()), (Some(8), Some(204)));
        assert_eq!(kconfig(&host).number("CONFIG_ZRAM").get(), None);
    }

    #[test]
    fn only_a_whole_configuration_is_believed_about_what_it_leaves_out() {
        let complete = host("boot/config-6.12.107", whole().into_bytes());
        let (built, evidence) = kconfig(&complete).get("CONFIG_LRU_GEN").unwrap();
        assert_eq!((built, evidence.line), (Built::Not, None));
        let cut = whole();
        let cut = cut.trim_end();
        let truncated = host("boot/config-6.12.107", cut.as_bytes().to_vec());
        assert_eq!(kconfig(&truncated).get("CONFIG_LRU_GEN"), None);
        let fragment = host("boot/config-6.12.107", b"CONFIG_ZRAM=y\n".to_vec());
        assert_eq!(kconfig(&fragment).get("CONFIG_LRU_GEN"), None);
        assert!(kconfig(&fragment).has("CONFIG_ZRAM"));
    }

    #[test]
    fn a_recording_answers_the_same_and_holds_nothing_else() {
        let secret = format!("{}CONFIG_DEFAULT_HOSTNAME=\"secret\"\n", whole());
        let live = host("proc/config.gz", gzip(&secret)).start_remembering();
        let first = format!("{:?}", kconfig(&live));
        let stored = live.into_remembered_files();
        let Some(Entry::File(bytes)) = stored.get("proc/config.gz") else { panic!("not stored") };
        assert!(!String::from_utf8_lossy(bytes).contains("secret"));
        assert_eq!(format!("{:?}", kconfig(&HostRoot::memory(stored))), first);
    }

    #[test]
    fn a_release_that_is_no_file_name_is_not_followed() {
        let host = testing::host([("proc/sys/kernel/osrelease", "../../etc/shadow")]);
        assert_eq!(release(&host), None);
    }

    proptest! {
        /// For any file content, an excerpt of the excerpt gives the same answers.
        #[test]
        fn excerpts_are_stable(raw in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..400),
            "(# )?CONFIG_(ZRAM|KSM|X)(=y|=m|=n| is not set|)\n?(\n|CONFIG_PSI=y\n){0,3}".prop_map(String::into_bytes),
        ]) {
            let once = excerpt(&raw);
            let twice = excerpt(&once);
            let shown = |bytes: Vec<u8>| format!("{:?}", parse(&Text::new("/x", bytes)));
            prop_assert_eq!(shown(once), shown(twice));
        }

        /// The result does not depend on how the text is cut into pieces.
        #[test]
        fn pieces_make_no_difference(
            plain in "(CONFIG_(ZRAM|KSM)=[ym]\n|# CONFIG_PSI is not set\n|\n|x){0,9}",
            size in 1usize..40,
        ) {
            let mut pieces = Excerpt::default();
            pieces.take_all(BufReader::with_capacity(size, plain.as_bytes()));
            prop_assert_eq!(pieces.finish(), excerpt(plain.as_bytes()));
            let kept = excerpt(plain.as_bytes());
            prop_assert_eq!(lines(&kept).count(), plain.lines().count() + 1);
        }

        /// Truncated or changed gzip data never causes a panic.
        #[test]
        fn broken_packing_is_survived(cut in 0usize..600, flip in 0usize..600, bit in 0u8..8) {
            let mut bytes = gzip(&whole());
            if let Some(byte) = bytes.get_mut(flip) {
                *byte ^= 1 << bit;
            }
            bytes.truncate(cut);
            let _ = excerpt(&bytes);
        }
    }
}
