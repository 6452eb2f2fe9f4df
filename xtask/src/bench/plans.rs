// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures how long it takes to make, apply and undo a plan of twelve steps on this machine.
//!
//! The steps are settings whose small change has no noticeable effect, files of sysctl.d,
//! tmpfiles.d and systemd, and links. For the program only, a copy of /etc on the project's disk is
//! bind-mounted over the machine's /etc, so that each fsync is real and no file of the machine
//! changes. Wall time is measured, because a user waits for `apply`; other load makes it longer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::measure::{Used, measure_child};
use super::table::{self, Promise, Row, Unit};
use super::way_back::WayBack;
use crate::run;

/// Settings whose value can differ for a moment without any effect on programs: the name in the
/// knob table, and the path.
const KNOBS: [(&str, &str); 4] = [
    ("vm.extfrag_threshold", "/proc/sys/vm/extfrag_threshold"),
    ("vm.watermark_boost_factor", "/proc/sys/vm/watermark_boost_factor"),
    ("vm.dirty_expire_centisecs", "/proc/sys/vm/dirty_expire_centisecs"),
    ("vm.dirty_writeback_centisecs", "/proc/sys/vm/dirty_writeback_centisecs"),
];
const FILES: [&str; 6] = [
    "/etc/sysctl.d/90-pagewise-bench.conf",
    "/etc/sysctl.d/91-pagewise-bench.conf",
    "/etc/tmpfiles.d/90-pagewise-bench.conf",
    "/etc/systemd/system/pagewise-bench.service",
    "/etc/systemd/system/pagewise-bench.slice.d/50-pagewise.conf",
    "/etc/modules-load.d/pagewise-bench.conf",
];
const LINKS: [&str; 2] = [
    "/etc/systemd/system/pagewise-bench-1.service",
    "/etc/systemd/system/pagewise-bench-2.service",
];

struct Bench<'a> {
    program: &'a Path,
    folder: PathBuf,
    way_back: WayBack,
}

pub(super) fn main(rounds: u16, program: &Path, machine: &str) -> Result<()> {
    let folder = tempfile::tempdir_in(run::project().join("target"))?;
    let bench = Bench { program, folder: folder.path().to_owned(), way_back: WayBack::new()? };
    bench.prepare()?;
    let (mut plans, mut owners, mut applied, mut undone) = (vec![], vec![], vec![], vec![]);
    for _ in 0..rounds {
        plans.push(bench.run(&["plan", "--json"])?);
        let owned = ["report", "--only", "owners", "--no-contents", "--interval", "0", "--json"];
        owners.push(bench.run(&owned)?);
        let before = bench.settings()?;
        applied.push(bench.apply()?);
        ensure!(bench.settings()? != before, "apply changed nothing");
        undone.push(bench.run(&["undo", "--all"])?);
        ensure!(bench.settings()? == before, "undo left {before:?} otherwise");
    }
    let row = |what, runs: &[Used], seconds: fn(&Used) -> f64, promise| {
        let values: Vec<f64> = runs.iter().map(seconds).collect();
        Row::new(what, Unit::Milliseconds, &values, promise)
    };
    let cpu = |used: &Used| used.cpu_seconds;
    let time = |used: &Used| used.wall_seconds;
    table::print(
        machine,
        [
            row("`plan`, all its CPU", &plans, cpu, Promise::Nothing),
            row("`report --only owners`, all its CPU", &owners, cpu, Promise::Nothing),
            row("`apply` of 12 steps, time", &applied, time, Promise::AtMost(0.3)),
            row("`apply` of 12 steps, CPU", &applied, cpu, Promise::Nothing),
            row("`undo` of them, time", &undone, time, Promise::Nothing),
        ],
    )
}

impl Bench<'_> {
    fn prepare(&self) -> Result<()> {
        run::run_to_success(run::program("cp").args(["--archive", "/etc"]).arg(&self.folder))?;
        let state = self.folder.join("state");
        fs::create_dir(&state)?;
        for (_, path) in KNOBS {
            let value = fs::read_to_string(path).with_context(|| path.to_owned())?;
            self.way_back.run_at_end(&format!("echo {} > {path}", value.trim()))?;
        }
        let planned: Value =
            serde_json::from_str(&run::output(&mut self.command(&["plan", "--json"]))?)?;
        let mut document = planned;
        document["steps"] = Value::Array(steps()?);
        document["declined"] = json!([]);
        fs::write(self.plan(), document.to_string())?;
        Ok(())
    }

    fn plan(&self) -> PathBuf {
        self.folder.join("plan.json")
    }

    /// A command that runs the program, with the copy of /etc in place of the machine's own.
    fn command(&self, arguments: &[&str]) -> Command {
        self.in_copy(&[], arguments)
    }

    fn in_copy(&self, before: &[&str], arguments: &[&str]) -> Command {
        let mut command = run::program("unshare");
        command
            .args(["--mount", "sh", "-c", "mount --bind \"$0\" /etc && exec \"$@\""])
            .arg(self.folder.join("etc"))
            .args(before)
            .arg(self.program)
            .args(arguments)
            .env("PAGEWISE_STATE", self.folder.join("state"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Result<Used> {
        let own = std::env::current_exe()?;
        let own = own.to_str().context("a path that is not UTF-8")?;
        measure_child(&mut self.in_copy(&[own, "measure", "--"], arguments))
    }

    fn apply(&self) -> Result<Used> {
        let plan = self.plan();
        let plan = plan.to_str().context("a path that is not UTF-8")?;
        self.run(&["apply", "--yes", "--settle", "0", plan])
    }

    fn settings(&self) -> Result<Vec<String>> {
        let read = |(_, path): (_, &str)| Ok(fs::read_to_string(path)?.trim().to_owned());
        KNOBS.into_iter().map(read).collect()
    }
}

/// The twelve steps, in the form of a plan.
fn steps() -> Result<Vec<Value>> {
    let step = |id: String, change: Value| {
        let mut step = json!({
            "id": id, "reason": "a benchmark", "finding": null, "expected": null, "risk": "none", "cost": null,
            "coupled": [], "needs": [], "undo": {"how": "restore", "what": "all"}, "survives_reboot": false,
        });
        let (Value::Object(step_keys), Value::Object(change)) = (&mut step, change) else {
            bail!("a step is an object");
        };
        step_keys.extend(change);
        Ok(step)
    };
    let knobs = KNOBS.into_iter().map(|(name, path)| {
        let from: u64 = fs::read_to_string(path)?.trim().parse()?;
        let (from, to) = (from.to_string(), (from + 1).to_string());
        step(name.to_owned(), json!({"action": "set-knob", "target": name, "from": from, "to": to}))
    });
    let files = FILES.into_iter().map(|path| {
        let text = "# pagewise bench\n";
        step(
            path.to_owned(),
            json!({"action": "write-file", "target": path, "from": null, "to": text}),
        )
    });
    let links = LINKS.into_iter().map(|path| {
        let change =
            json!({"action": "make-link", "target": path, "from": null, "to": "/dev/null"});
        step(path.to_owned(), change)
    });
    knobs.chain(files).chain(links).collect()
}
