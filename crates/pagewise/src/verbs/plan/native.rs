// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plan --native-only`: the configuration files of a plan below a folder, for tools that distribute them.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use anyhow::Context;
use pagewise_model::Refusal;
use pagewise_model::plan::{Change, Plan, config_mode};
use pagewise_terminal::output;

/// Mode bits of a file: write permission for the group and for others.
const FOREIGN_WRITE: u32 = 0o022;
/// Mode bits of a file: permission to run it.
const EXECUTABLE: u32 = 0o111;

/// Refuses a folder that other users can write to, before anything is read from the host.
pub(super) fn check_folder(folder: &Path) -> anyhow::Result<()> {
    output::create_empty_folder(folder)?;
    let meta = std::fs::metadata(folder).with_context(|| folder.display().to_string())?;
    let ours = meta.uid() == rustix::process::geteuid().as_raw();
    if ours && meta.mode() & FOREIGN_WRITE == 0 {
        return Ok(());
    }
    let what = format!(
        "{}: expected a folder that only you can write to, found owner {} and mode {:04o}; nothing was written",
        folder.display(),
        meta.uid(),
        meta.mode() & 0o7777
    );
    Err(Refusal::with_advice(what, "give the name of a new folder").into())
}

/// Writes the files and links of the plan, by their paths below `folder`.
pub(super) fn write(folder: &Path, plan: &Plan) -> anyhow::Result<()> {
    check_folder(folder)?;
    let below = |path: &str| path.trim_start_matches('/').to_owned();
    let files = plan.steps.iter().filter_map(|step| match &step.change {
        Change::WriteFile { target, to, .. } => Some((below(target), to.clone().into_bytes())),
        _ => None,
    });
    output::create_files_below(folder, files)?;
    for step in &plan.steps {
        match &step.change {
            Change::MakeLink { target, to, .. } => {
                let link = output::create_parent_folders(folder, &below(target))?;
                symlink(to, &link).with_context(|| link.display().to_string())?;
            }
            Change::WriteFile { target, .. } if config_mode(target) & EXECUTABLE != 0 => {
                let file = folder.join(below(target));
                std::fs::set_permissions(&file, Permissions::from_mode(0o700))
                    .with_context(|| file.display().to_string())?;
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pagewise_model::Installation;
    use pagewise_plan::{Measured, Request, make_plan};
    use pagewise_testkit::scene::Scene;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test reads what was written")]
    fn files_and_links_lie_below_the_folder_and_nothing_else() {
        let interval = &Scene::load("debian-trixie-6.12-x86_64-256m-oom-host").replay();
        let (installation, measured) = (&Installation::default(), &Measured::default());
        let goal = pagewise_model::plan::Goal::Balanced;
        let plan = make_plan(&Request {
            interval,
            installation,
            measured,
            goal,
            only: &[],
            wants: &[],
            anyway: false,
        });
        let folder = pagewise_testkit::empty_folder();
        write(folder.path(), &plan).unwrap();
        let system = folder.path().join("etc/systemd/system");
        let unit = std::fs::read_to_string(system.join("pagewise-zram.service")).unwrap();
        let step = plan.step("zram-file").unwrap();
        assert!(matches!(&step.change, Change::WriteFile { to, .. } if *to == unit));
        let link = system.join("swap.target.wants/pagewise-zram.service");
        let target = std::fs::read_link(link).unwrap();
        assert_eq!(target, Path::new("/etc/systemd/system/pagewise-zram.service"));
        let names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names, ["etc"]);
    }
}
