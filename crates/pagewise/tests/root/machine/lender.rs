// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A [`Lender`] that uses [`Loans`]: what an experiment changes is undone also when it is killed.
//!
//! A loan is undone only as long as its token, a file, exists: after a zram device was removed
//! early, its number may be somebody else's by the time the other loans are undone. The file `lent`
//! next to the tokens lists all loans so far.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use pagewise_model::lend::{
    GroupSpec, KnobSetting, Lender, LoanId, MemoryGroup, SwapFile, SwapSpec, ZramDevice, ZramSpec,
};
use pagewise_model::{Bytes, Compressor, Refusal};

use pagewise_testkit::{Loans, Thing, note_made};

/// The mount points of memory cgroups in v1, and of all cgroups in v2.
const HIERARCHIES: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

#[derive(Debug)]
pub(crate) struct LoansLender {
    loans: Loans,
    tokens: PathBuf,
    next: u64,
    ways_back: BTreeMap<LoanId, String>,
}

impl LoansLender {
    /// Keeps its tokens in this folder.
    pub(crate) fn new(tokens: &Path) -> Self {
        let tokens = tokens.to_owned();
        Self { loans: Loans::new(), tokens, next: 0, ways_back: BTreeMap::new() }
    }

    fn token(&self, loan: LoanId) -> PathBuf {
        self.tokens.join(loan.0.to_string())
    }

    fn promise(&mut self, way_back: String) -> LoanId {
        let loan = LoanId(self.next);
        self.next += 1;
        std::fs::write(self.token(loan), "").expect("a folder for tokens");
        let token = self.token(loan).display().to_string();
        self.loans.promise(&format!("if [ -e '{token}' ]; then {way_back}; fi; true"));
        self.ways_back.insert(loan, way_back);
        loan
    }

    /// Lists the thing before it is created, if its name is known by then.
    fn list(&self, thing: &Thing) {
        let mut options = std::fs::OpenOptions::new();
        let list = options.append(true).create(true).open(self.tokens.join("lent"));
        writeln!(list.expect("a folder for tokens"), "{thing}").expect("room for a line");
        note_made(thing);
    }

    fn promised(&mut self, way_back: String, take: &str) -> Result<LoanId, Refusal> {
        let loan = self.promise(way_back);
        shell(take).inspect_err(|_| drop(self.return_loan(loan)))?;
        Ok(loan)
    }
}

fn shell(script: &str) -> Result<(), Refusal> {
    let ended = Command::new("sh").args(["-ec", script]).output().expect("sh");
    if ended.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
    Err(Refusal::new(script, why))
}

impl Lender for LoansLender {
    fn lend_zram(&mut self, spec: &ZramSpec) -> Result<ZramDevice, Refusal> {
        let number: u32 = pagewise_testkit::read("/sys/class/zram-control/hot_add")
            .parse()
            .expect("the number of a new device");
        let sysfs = PathBuf::from(format!("/sys/block/zram{number}"));
        let shown = sysfs.display();
        let loan = self.promise(format!(
            "echo 1 > {shown}/reset; echo {number} > /sys/class/zram-control/hot_remove"
        ));
        self.list(&Thing::zram(number).expect("the device that was made"));
        let mut set_up = String::new();
        if let Some(Compressor { algorithm, level }) = &spec.compressor {
            assert_eq!(*level, None, "no test sets a level");
            set_up += &format!("echo {algorithm} > {shown}/comp_algorithm; ");
        }
        if let Some(limit) = spec.mem_limit {
            set_up += &format!("echo {} > {shown}/mem_limit; ", limit.get());
        }
        set_up += &format!("echo {} > {shown}/disksize", spec.disksize.get());
        shell(&set_up).inspect_err(|_| drop(self.return_loan(loan)))?;
        Ok(ZramDevice { loan, number, device: format!("/dev/zram{number}").into(), sysfs })
    }

    fn lend_swap(&mut self, spec: &SwapSpec) -> Result<LoanId, Refusal> {
        let area = spec.area.path().display();
        self.list(&Thing::swap(&area.to_string()));
        let priority = spec.priority.map_or(String::new(), |number| format!("-p {number}"));
        let take = format!("mkswap {area}; swapon {priority} {area}");
        self.promised(format!("swapoff {area}"), &take)
    }

    fn lend_swap_file(&mut self, folder: &Path, size: Bytes) -> Result<SwapFile, Refusal> {
        let path = folder.join("swapfile");
        let shown = path.display();
        self.list(&Thing::Path(path.clone()));
        let blocks = size.get() / 4096;
        let take =
            format!("dd if=/dev/zero of='{shown}' bs=4096 count={blocks}; chmod 600 '{shown}'");
        let loan = self.promised(format!("rm -f '{shown}'"), &take)?;
        Ok(SwapFile { loan, path })
    }

    fn lend_group(&mut self, spec: &GroupSpec) -> Result<MemoryGroup, Refusal> {
        let there = |(folder, limit): &&(&str, &str)| {
            Path::new(folder).join("cgroup.procs").exists()
                && (*limit == "memory.max") != is_version_1()
        };
        let (parent, limit) = HIERARCHIES.iter().find(there).expect("a memory controller");
        let folder = Path::new(parent).join(format!("pagewise-faults-{}", std::process::id()));
        let shown = folder.display();
        self.list(&Thing::Path(folder.clone()));
        let way_back = format!(
            "for pid in $(cat {shown}/cgroup.procs); do kill -9 $pid; done; \
             for wait in $(seq 300); do rmdir {shown} && break; sleep 0.2; done; \
             [ ! -e {shown} ]"
        );
        let mut take = format!("mkdir {shown}; ");
        if let Some(bytes) = spec.max {
            take += &format!("echo {} > {shown}/{limit}; ", bytes.get());
        }
        if let Some(swappiness) = spec.swappiness {
            take += &format!("echo {swappiness} > {shown}/memory.swappiness; ");
        }
        let loan = self.promised(way_back, &take)?;
        Ok(MemoryGroup { loan, folder, unified: *limit == "memory.max" })
    }

    fn lend_knob(&mut self, setting: &KnobSetting) -> Result<LoanId, Refusal> {
        let KnobSetting { name, value, .. } = setting;
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let old = pagewise_testkit::read(&path);
        self.promised(format!("echo {old} > {path}"), &format!("echo {value} > {path}"))
    }

    fn return_loan(&mut self, loan: LoanId) -> Result<(), Refusal> {
        let way_back = self.ways_back.remove(&loan).expect("lent, and not given back yet");
        shell(&way_back)?;
        std::fs::remove_file(self.token(loan)).expect("its token");
        Ok(())
    }
}

fn is_version_1() -> bool {
    Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists()
}
