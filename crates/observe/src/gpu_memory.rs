// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads how much system memory the GPU buffers of each process take into [`GpuMemory`].
//!
//! Drivers print it in `/proc/PID/fdinfo/N` of each open file of a GPU, as `drm-resident-REGION`. What
//! a region is called is up to the driver: `gtt`, `cpu`, `memory` and `system0` are in system memory,
//! `vram` and `local0` are not. Older kernels print `drm-memory-REGION`. A process that opened a GPU
//! several times has several clients; one client may be open in several processes. Each client of a
//! GPU counts once.
//!
//! Reading all links of open files is not cheap, so it is done only if much RAM is in use that
//! meminfo does not explain, and if the machine has a GPU. A recording has one line for each client,
//! as `proc/PID/fdinfo`: driver, address, client, bytes.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use pagewise_hostfs::text::{Line, Text, number, words};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues, Refusal, absolute_path};
use pagewise_model::{Bytes, GpuMemory, Memory, Name, Process, Reading, Source};
use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;

use crate::limits::{GPU_CLIENTS, OPEN_FILE_LINKS};

/// Clients are searched if at least this share of RAM is in use and not in the main counters.
const WORTH_PERCENT: f64 = 20.0;
/// Longest fdinfo that is read, in bytes.
const FDINFO_BYTES: u64 = 16 << 10;
/// A recording has this in place of an address that the driver does not print.
const NO_ADDRESS: &str = "-";

pub(crate) fn read(host: &HostRoot, memory: &Memory, processes: &[Process]) -> Vec<GpuMemory> {
    if !is_worth_it(memory)
        || host.live_folder("dev/dri", OFlags::PATH).is_some_and(|it| it.is_err())
    {
        return Vec::new();
    }
    let mut searcher = Searcher { links: OPEN_FILE_LINKS, clients: GPU_CLIENTS };
    let mut left = GPU_CLIENTS;
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for process in processes {
        let Ok(text) = searcher.clients(host, process.pid) else { continue };
        let understood = |line: Line<'_>| {
            line.check_parsed(host, "a client of a GPU in four columns", Client::parse(&line))
        };
        let source = text.source();
        for client in text.first_lines(host, left).filter_map(understood) {
            left -= 1;
            if seen.insert(client.identity()) {
                add(&mut all, process, &client, &source);
            }
        }
    }
    all.sort_by_key(|it| (Reverse(it.system.get()), it.pid));
    all
}

/// Adds a client to what is known of its process and GPU.
fn add(all: &mut Vec<GpuMemory>, process: &Process, client: &Client, source: &Source) {
    let (driver, device) = (Name::from(client.driver.as_str()), Name::from(client.device.as_str()));
    // the entries of a process are the last ones, as processes are read one after the other
    let known = all
        .iter_mut()
        .rev()
        .take_while(|it| it.pid == process.pid)
        .find(|it| it.driver == driver && it.device == device);
    match known {
        Some(known) => {
            let sum = known.system.get().unwrap_or_default().saturating_add(client.system);
            known.system = Reading::found(sum, source.clone());
        }
        None => all.push(GpuMemory {
            pid: process.pid,
            process: process.name.clone(),
            driver,
            device,
            system: Reading::found(client.system, source.clone()),
        }),
    }
}

/// Whether much RAM is in use that neither programs nor page cache nor slab take.
fn is_worth_it(memory: &Memory) -> bool {
    let counted = [
        &memory.free,
        &memory.anon_pages,
        &memory.cached,
        &memory.buffers,
        &memory.slab_unreclaimable,
        &memory.slab_reclaimable,
        &memory.hugetlb,
    ];
    let counted: Bytes = counted.into_iter().filter_map(Reading::get).sum();
    let rest = memory.total.get().and_then(|total| total.saturating_sub(counted).percent_of(total));
    rest.is_some_and(|rest| rest.get() >= WORTH_PERCENT)
}

/// A client of a GPU: what a process gets by opening it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Client {
    driver: String,
    device: String,
    id: u64,
    system: Bytes,
}

impl Client {
    fn identity(&self) -> (String, String, u64) {
        (self.driver.clone(), self.device.clone(), self.id)
    }

    /// Parses a line of a recording: `amdgpu 0000:0b:00.0 30 1048576`.
    fn parse(line: &Line<'_>) -> Option<Self> {
        let mut words = line.words();
        let mut text = || std::str::from_utf8(words.next()?).ok().map(str::to_owned);
        let (driver, device) = (text()?, text()?);
        let (id, system) = (text()?.parse().ok()?, text()?.parse().ok()?);
        Some(Self { driver, device, id, system: Bytes::new(system) })
    }

    fn to_line(&self) -> String {
        let Self { driver, device, id, system } = self;
        format!("{driver} {device} {id} {}\n", system.get())
    }

    /// Parses the text of a fdinfo; `None` if it is not one of a GPU, or has no memory.
    fn from_fdinfo(bytes: &[u8]) -> Option<Self> {
        let mut driver = None;
        let mut device = NO_ADDRESS.to_owned();
        let mut id = None;
        let mut regions: Vec<(&[u8], usize, Bytes)> = Vec::new();
        for line in bytes.split(|&byte| byte == b'\n') {
            let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
            let (key, value) = (&line[..colon], &line[colon + 1..]);
            match key {
                b"drm-driver" => driver = parse_word(value),
                b"drm-pdev" => device = parse_word(value)?,
                b"drm-client-id" => id = number::<u64>(value.trim_ascii()),
                _ => {
                    let found = KEYS.iter().enumerate().find_map(|(rank, prefix)| {
                        Some((key.strip_prefix(*prefix)?, rank, parse_size(value)?))
                    });
                    regions.extend(found.filter(|(region, ..)| is_system(region)));
                }
            }
        }
        // a region may have several keys for the same memory: the most exact one is used
        regions.sort_by_key(|(region, rank, _)| (*region, *rank));
        regions.dedup_by_key(|(region, ..)| *region);
        let system: Bytes = regions.iter().map(|(_, _, size)| *size).sum();
        (!regions.is_empty()).then_some(())?;
        Some(Self { driver: driver?, device, id: id?, system })
    }
}

/// Keys for the memory of a client in a region, the most exact first. `drm-memory-` is the name that amdgpu
/// formerly used for resident memory.
const KEYS: [&[u8]; 3] = [b"drm-resident-", b"drm-memory-", b"drm-total-"];

/// Whether a region with this name is in system memory.
fn is_system(region: &[u8]) -> bool {
    matches!(region, b"gtt" | b"cpu" | b"memory")
        || region.strip_prefix(b"system").is_some_and(|rest| rest.iter().all(u8::is_ascii_digit))
}

/// The value if it consists of letters, digits and the punctuation of PCI addresses; `None` otherwise.
fn parse_word(value: &[u8]) -> Option<String> {
    let word = words(value).next()?;
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte);
    (word.len() <= 40 && word.iter().all(is_plain))
        .then(|| String::from_utf8_lossy(word).into_owned())
}

/// Parses `1024 KiB`, `3 MiB` or bytes.
fn parse_size(value: &[u8]) -> Option<Bytes> {
    let mut words = words(value);
    let count: u64 = number(words.next()?)?;
    let unit = match words.next() {
        None => 1,
        Some(b"KiB") => 1 << 10,
        Some(b"MiB") => 1 << 20,
        Some(_) => return None,
    };
    count.checked_mul(unit).map(Bytes::new)
}

struct Searcher {
    /// How many links of open files may still be read.
    links: usize,
    /// How many fdinfo may still be read.
    clients: usize,
}

impl Searcher {
    /// The clients that a process has open, one line each.
    fn clients(&mut self, host: &HostRoot, pid: u32) -> Result<Text, Refusal> {
        let path = format!("proc/{pid}/fdinfo");
        let Some(folder) = host.live_folder(&format!("proc/{pid}/fd"), OFlags::RDONLY) else {
            return host.text(&path);
        };
        let answer =
            folder.and_then(|folder| self.list_clients(&folder).map_err(Refusal::from_errno));
        // most processes have none: a recording does not need an empty file of each
        if !matches!(&answer, Ok(bytes) if bytes.is_empty()) {
            host.note(&path, &answer);
        }
        answer.map(|bytes| Text::new(&absolute_path(&path), bytes))
    }

    #[expect(clippy::disallowed_methods, reason = "a recording has what is kept of the text")]
    fn list_clients(&mut self, folder: &OwnedFd) -> Result<Vec<u8>, Errno> {
        let mut lines = String::new();
        for entry in Dir::read_from(folder)?.flatten() {
            let Some(descriptor) = number::<u32>(entry.file_name().to_bytes()) else { continue };
            if self.links == 0 || self.clients == 0 {
                break;
            }
            self.links -= 1;
            let name = descriptor.to_string();
            let link = match rustix::fs::readlinkat(folder, name.as_str(), Vec::new()) {
                Err(errno @ (Errno::ACCESS | Errno::PERM)) => return Err(errno),
                other => other,
            };
            if !link.is_ok_and(|link| link.to_bytes().starts_with(b"/dev/dri/")) {
                continue;
            }
            self.clients -= 1;
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let info =
                rustix::fs::openat(folder, format!("../fdinfo/{name}"), flags, Mode::empty());
            let mut bytes = Vec::new();
            let read = info.map(|info| File::from(info).take(FDINFO_BYTES).read_to_end(&mut bytes));
            if matches!(read, Ok(Ok(_))) {
                lines.extend(Client::from_fdinfo(&bytes).map(|client| client.to_line()));
            }
        }
        Ok(lines.into_bytes())
    }
}

/// Parses any bytes as a fdinfo.
pub(crate) fn fuzz_fdinfo(bytes: &[u8]) {
    drop(std::hint::black_box(Client::from_fdinfo(bytes)));
}

/// A fdinfo as a seed.
pub(crate) fn short_fdinfo() -> Vec<u8> {
    AMDGPU.as_bytes().to_vec()
}

/// The text as amdgpu prints it in Linux 6.12, shortened.
const AMDGPU: &str = "pos:\t0\nflags:\t02100002\nmnt_id:\t24\nino:\t500\ndrm-driver:\tamdgpu\n\
    drm-client-id:\t30\ndrm-pdev:\t0000:0b:00.0\npasid:\t32771\ndrm-total-vram:\t65536 KiB\n\
    drm-shared-vram:\t0\ndrm-resident-vram:\t65536 KiB\ndrm-total-gtt:\t3 MiB\ndrm-shared-gtt:\t0\n\
    drm-resident-gtt:\t2048 KiB\ndrm-total-cpu:\t512 KiB\ndrm-resident-cpu:\t512 KiB\n\
    drm-memory-vram:\t65536 KiB\ndrm-memory-gtt:\t2048 KiB\namd-evicted-vram:\t0 KiB\n\
    drm-engine-gfx:\t5000 ns\n";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{denied_entry, file, mangle};

    fn client(text: &str) -> Option<(String, String, u64, u64)> {
        let client = Client::from_fdinfo(text.as_bytes())?;
        Some((client.driver, client.device, client.id, client.system.get()))
    }

    #[test]
    fn memory_in_system_regions_is_counted_and_that_of_the_card_is_not() {
        let expected = ("amdgpu".to_owned(), "0000:0b:00.0".to_owned(), 30, 2560 << 10);
        assert_eq!(client(AMDGPU), Some(expected));
        // 6.1 prints no resident sizes
        let old = "drm-driver:\tamdgpu\ndrm-pdev:\t0000:0b:00.0\ndrm-client-id:\t7\n\
                   drm-memory-vram:\t9 KiB\ndrm-memory-gtt: \t5 KiB\n";
        assert_eq!(client(old).unwrap().3, 5 << 10);
        let xe = "drm-driver:\txe\ndrm-client-id:\t4\ndrm-pdev:\t0000:03:00.0\ndrm-total-system:\t0\n\
                  drm-resident-system:\t8 MiB\ndrm-resident-gtt:\t192 KiB\ndrm-resident-vram0:\t23 MiB\n\
                  drm-total-cycles-rcs:\t7\n";
        assert_eq!(client(xe).unwrap().3, (8 << 20) + (192 << 10));
        // without an address, as on a system on a chip
        let soc = "drm-driver:\tpanfrost\ndrm-client-id:\t3\ndrm-total-memory:\t290 MiB\n";
        assert_eq!(client(soc).unwrap().1, NO_ADDRESS);
    }

    #[test]
    fn what_has_no_driver_client_or_memory_is_no_client() {
        for text in [
            "pos:\t0\nflags:\t02\n",
            "drm-driver:\tsimpledrm\ndrm-client-id:\t1\n",
            "drm-driver:\tamdgpu\ndrm-memory-gtt:\t5 KiB\n",
            "drm-driver:\tamdgpu\ndrm-client-id:\t7\ndrm-memory-gtt:\tmany KiB\n",
            "drm-driver:\tamdgpu\ndrm-client-id:\t7\ndrm-pdev:\tx\u{1b}[2J\ndrm-memory-gtt:\t5 KiB\n",
        ] {
            assert_eq!(client(text), None, "{text}");
        }
    }

    /// With a total of 1000 kB, of which this much is in no counter.
    fn memory(rest: u64) -> Memory {
        let kib = |kib| Reading::found(Bytes::from_kib(kib).unwrap(), Source::none());
        Memory { total: kib(1000), free: kib(1000 - rest), ..Memory::default() }
    }

    fn processes() -> [Process; 3] {
        [7, 8, 9].map(|pid| Process { pid, name: Name::from("game"), ..Process::default() })
    }

    #[test]
    fn each_client_of_a_gpu_counts_once() {
        let host = HostRoot::memory([
            file(
                "proc/7/fdinfo",
                "amdgpu 0000:0b:00.0 30 100\namdgpu 0000:0b:00.0 30 100\namdgpu 0000:0b:00.0 31 50\n",
            ),
            file("proc/8/fdinfo", "amdgpu 0000:0b:00.0 30 100\namdgpu 0000:0c:00.0 30 400\n"),
            denied_entry("proc/9/fdinfo"),
        ]);
        let all = read(&host, &memory(200), &processes());
        let told: Vec<_> = all
            .iter()
            .map(|it| (it.pid, it.device.as_str(), it.system.get().map(Bytes::get)))
            .collect();
        assert_eq!(told, [(8, "0000:0c:00.0", Some(400)), (7, "0000:0b:00.0", Some(150))]);
        assert_eq!(all[1].system.source.path(), "/proc/7/fdinfo");
        // nothing is searched if the counters of the kernel have nearly all
        assert!(read(&host, &memory(190), &processes()).is_empty());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(text in mangle(AMDGPU), line in mangle("amdgpu 0000:0b:00.0 30 100\n")) {
            if let Some(client) = Client::from_fdinfo(&text) {
                let again = Text::new("/proc/7/fdinfo", client.to_line().into_bytes());
                let parsed = again.lines().next().and_then(|line| Client::parse(&line));
                prop_assert_eq!(parsed, Some(client));
            }
            read(&HostRoot::memory([file("proc/7/fdinfo", line)]), &memory(500), &processes());
        }
    }
}
