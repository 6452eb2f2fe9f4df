// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plan --render`: the plan as a file of another tool.

use std::io::IsTerminal;
use std::path::Path;

use pagewise_model::Refusal;
use pagewise_model::plan::Plan;
use pagewise_report::render::{Format, render};
use pagewise_terminal::{Outcome, output};

use crate::cli::RenderFormat;

/// Prints the plan in this format, and writes it to `file` if there is one.
pub(super) fn print(
    plan: &Plan,
    format: RenderFormat,
    file: Option<&Path>,
) -> anyhow::Result<Outcome> {
    let rendered = match render(plan, format.into()) {
        Ok(rendered) => rendered,
        Err(_) if plan.steps.is_empty() => {
            let next = "pagewise plan (it says what was left out, and why)";
            anyhow::bail!(Refusal::with_advice("the plan has no steps to render".to_owned(), next));
        }
        Err(reasons) => {
            reasons.iter().for_each(output::print_message);
            let what =
                "this format can express no step of the plan; nothing was written".to_owned();
            anyhow::bail!(Refusal::with_advice(what, "pagewise plan --render shell"));
        }
    };
    let is_archive = format == RenderFormat::DebianFiles;
    if is_archive && file.is_none() && std::io::stdout().is_terminal() {
        let what = "debian-files is a tar archive, which a terminal cannot show".to_owned();
        anyhow::bail!(Refusal::with_advice(
            what,
            "pagewise plan --render debian-files -o plan.tar"
        ));
    }
    if let Some(path) = file {
        output::create_file(path, &rendered.bytes)?;
    }
    if !(is_archive && file.is_some()) {
        output::write_out(&rendered.bytes)?;
    }
    rendered.left_out.iter().for_each(output::print_message);
    Ok(Outcome::Done)
}

impl From<RenderFormat> for Format {
    fn from(format: RenderFormat) -> Self {
        match format {
            RenderFormat::Ansible => Self::Ansible,
            RenderFormat::CloudInit => Self::CloudInit,
            RenderFormat::Nix => Self::Nix,
            RenderFormat::Ignition => Self::Ignition,
            RenderFormat::Talos => Self::Talos,
            RenderFormat::Bottlerocket => Self::Bottlerocket,
            RenderFormat::Kubernetes => Self::Kubernetes,
            RenderFormat::DebianFiles => Self::DebianFiles,
            RenderFormat::Shell => Self::Shell,
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test runs the script and reads what it wrote")]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use pagewise_model::plan::{Change, Goal, Want, config_mode};
    use pagewise_model::{Bytes, InitSystem, Installation, Name, Reading, Source};
    use pagewise_plan::{Measured, Request, make_plan};
    use pagewise_testkit::scene::{Scene, slugs};
    use proptest::prelude::*;
    use serde_json::Value;
    use yaml_rust2::{Yaml, YamlLoader};

    use super::*;

    const WANTS: [&str; 5] =
        ["zram", "zswap", "swapfile=512M", "hugepages=operator", "vm.swappiness=100"];

    const SHORT: &str = "debian-trixie-6.12-x86_64-256m-oom-host";

    /// Files and links by path; a link is its target after an arrow, a file its mode and contents.
    type Tree = BTreeMap<String, String>;

    fn file(mode: u64, contents: &str) -> String {
        format!("{mode:o} {contents}")
    }

    fn tree_of_plan(plan: &Plan) -> Tree {
        let entry = |change: &Change| match change {
            Change::WriteFile { target, to, .. } => {
                Some((target.clone(), file(config_mode(target).into(), to)))
            }
            Change::MakeLink { target, to, .. } => Some((target.clone(), format!("-> {to}"))),
            _ => None,
        };
        plan.steps.iter().filter_map(|step| entry(&step.change)).collect()
    }

    /// A host on whose disk a swap file may be added.
    fn installation() -> Installation {
        let found = |name: &str| Reading::found(Name::from(name), Source::file("/made"));
        let mut installation = Installation::default();
        installation.swap_folder.free_bytes = Some(Bytes::new(100 << 30));
        installation.swap_folder.disk.file_system = found("ext4");
        installation.swap_folder.disk.name = found("nvme0n1");
        installation.swap_folder.disk.lowest = found("nvme0n1");
        // with this init system, plans for recordings of machines without systemd include a start
        // script
        installation.init = InitSystem::OpenRc;
        installation
    }

    /// The plans for every recording: one for its findings, and one for each request.
    fn plans() -> Vec<(String, Plan)> {
        let mut plans = Vec::new();
        for slug in slugs() {
            let scene = Scene::load(&slug);
            let interval = &scene.replay();
            let installation = &installation();
            for want in [None].into_iter().chain(WANTS.map(Some)) {
                let wants: Vec<Want> = want.iter().map(|it| it.parse().unwrap()).collect();
                let plan = make_plan(&Request {
                    interval,
                    installation,
                    measured: &Measured::default(),
                    goal: Goal::Balanced,
                    only: &[],
                    wants: &wants,
                    anyway: true,
                });
                plans.push((format!("{slug} {want:?}"), plan));
            }
        }
        plans
    }

    fn rendered_text(plan: &Plan, format: Format) -> Option<String> {
        let rendered = render(plan, format).ok()?;
        Some(String::from_utf8(rendered.bytes).unwrap())
    }

    fn load(text: &str) -> Vec<Yaml> {
        YamlLoader::load_from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn yaml_text(yaml: &Yaml) -> String {
        yaml.as_str().unwrap_or_else(|| panic!("no text: {yaml:?}")).to_owned()
    }

    fn octal(yaml: &Yaml) -> u64 {
        u64::from_str_radix(&yaml_text(yaml), 8).unwrap()
    }

    fn list(yaml: &Yaml) -> &[Yaml] {
        yaml.as_vec().map(Vec::as_slice).unwrap_or_default()
    }

    fn tree_of_cloud_init(text: &str) -> Tree {
        assert!(text.starts_with("#cloud-config\n"), "{text}");
        let document = &load(text)[0];
        let mut tree = Tree::new();
        for entry in list(&document["write_files"]) {
            let contents = file(octal(&entry["permissions"]), &yaml_text(&entry["content"]));
            tree.insert(yaml_text(&entry["path"]), contents);
        }
        for command in list(&document["runcmd"]) {
            let words: Vec<String> = list(command).iter().map(yaml_text).collect();
            if let [ln, _, to, path] = &words[..] {
                if ln == "ln" {
                    tree.insert(path.clone(), format!("-> {to}"));
                }
            }
        }
        tree
    }

    fn tree_of_ansible(text: &str) -> Tree {
        let document = &load(text)[0];
        let mut tree = Tree::new();
        for task in list(&document[0]["tasks"]) {
            let (copy, link) = (&task["ansible.builtin.copy"], &task["ansible.builtin.file"]);
            if !copy.is_badvalue() {
                let contents = file(octal(&copy["mode"]), &yaml_text(&copy["content"]));
                tree.insert(yaml_text(&copy["dest"]), contents);
            } else if link["state"].as_str() == Some("link") {
                tree.insert(yaml_text(&link["dest"]), format!("-> {}", yaml_text(&link["src"])));
            }
        }
        tree
    }

    /// The decoded contents of a data URL in which each character is percent-encoded or stands for
    /// itself.
    fn decode(url: &str) -> String {
        let body = url.strip_prefix("data:,").unwrap();
        let mut bytes = Vec::new();
        let mut rest = body.bytes();
        while let Some(byte) = rest.next() {
            let mut digit = || char::from(rest.next().unwrap()).to_digit(16).unwrap();
            bytes.push(if byte == b'%' {
                u8::try_from(digit() * 16 + digit()).unwrap()
            } else {
                byte
            });
        }
        String::from_utf8(bytes).unwrap()
    }

    fn tree_of_ignition(text: &str, plan: &Plan) -> Tree {
        let config: Value = serde_json::from_str(text).unwrap();
        let text_of = |value: &Value| value.as_str().unwrap().to_owned();
        let mut tree = Tree::new();
        for entry in config["storage"]["files"].as_array().unwrap() {
            let contents = decode(entry["contents"]["source"].as_str().unwrap());
            let mode = entry["mode"].as_u64().unwrap();
            tree.insert(text_of(&entry["path"]), file(mode, &contents));
        }
        for link in config["storage"]["links"].as_array().unwrap() {
            tree.insert(text_of(&link["path"]), format!("-> {}", text_of(&link["target"])));
        }
        for unit in config["systemd"]["units"].as_array().unwrap() {
            let path = format!("/etc/systemd/system/{}", text_of(&unit["name"]));
            if unit["enabled"] == true {
                // the link that [Install] of the unit asks for
                let wanted = unit["contents"].as_str().unwrap().lines();
                let target =
                    wanted.filter_map(|line| line.strip_prefix("WantedBy=")).next().unwrap();
                let name = text_of(&unit["name"]);
                let link = format!("/etc/systemd/system/{target}.wants/{name}");
                assert!(tree_of_plan(plan).contains_key(&link), "{link}");
                tree.insert(link, format!("-> {path}"));
            }
            tree.insert(path, file(0o644, &text_of(&unit["contents"])));
        }
        tree
    }

    fn add_folder(tree: &mut Tree, root: &Path, folder: &Path) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("/{}", path.strip_prefix(root).unwrap().to_str().unwrap());
            if let Ok(target) = std::fs::read_link(&path) {
                tree.insert(name, format!("-> {}", target.to_str().unwrap()));
            } else if path.is_dir() {
                add_folder(tree, root, &path);
            } else {
                let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
                tree.insert(name, file(mode.into(), &std::fs::read_to_string(&path).unwrap()));
            }
        }
    }

    /// Runs the script with this folder as root; returns whether it succeeded, its standard error,
    /// and the files.
    fn run_script(script: &str, root: &Path) -> (bool, String, Tree) {
        let program = Command::new("/bin/sh").args(["-c", script]).env("DESTDIR", root).output();
        let output = program.unwrap();
        let mut tree = Tree::new();
        add_folder(&mut tree, root, root);
        (output.status.success(), String::from_utf8(output.stderr).unwrap(), tree)
    }

    fn tree_of_script(script: &str) -> Tree {
        let folder = pagewise_testkit::empty_folder();
        let first = run_script(script, folder.path());
        assert!(first.0, "{}", first.1);
        let again = run_script(script, folder.path());
        assert_eq!(first, again);
        first.2
    }

    fn tree_of_tar(bytes: &[u8]) -> Tree {
        let mut tree = Tree::new();
        for entry in tar::Archive::new(bytes).entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().to_str().unwrap().to_owned();
            let name = path.strip_prefix("pagewise-settings").unwrap().to_owned();
            let link = entry.link_name().unwrap().map(|it| format!("-> {}", it.display()));
            let mut contents = String::new();
            std::io::Read::read_to_string(&mut entry, &mut contents).unwrap();
            if !name.starts_with("/DEBIAN/") {
                let mode = entry.header().mode().unwrap();
                tree.insert(name, link.unwrap_or_else(|| file(mode.into(), &contents)));
            }
        }
        tree
    }

    fn assert_same_files(name: &str, plan: &Plan) -> usize {
        let expected = tree_of_plan(plan);
        let text = |format| rendered_text(plan, format);
        let needed = |format| rendered_text(plan, format).unwrap();
        if let Some(text) = text(Format::CloudInit) {
            assert_eq!(tree_of_cloud_init(&text), expected, "{name}");
            assert_eq!(tree_of_ansible(&needed(Format::Ansible)), expected, "{name}");
            assert_eq!(tree_of_script(&needed(Format::Shell)), expected, "{name}");
            assert_eq!(
                tree_of_tar(&render(plan, Format::DebianFiles).unwrap().bytes),
                expected,
                "{name}"
            );
            let kubernetes = load(&needed(Format::Kubernetes));
            assert_eq!(tree_of_script(&yaml_text(&kubernetes[0]["data"]["apply.sh"])), expected);
            assert_eq!(kubernetes[1]["kind"].as_str(), Some("DaemonSet"));
        } else {
            assert!(expected.is_empty(), "{name}");
        }
        if let Some(text) = text(Format::Ignition) {
            assert_eq!(tree_of_ignition(&text, plan), expected, "{name}");
        } else {
            assert!(expected.is_empty(), "{name}");
        }
        expected.len()
    }

    #[test]
    fn every_rendered_form_has_the_files_of_the_plan() {
        let counts: Vec<usize> =
            plans().iter().map(|(name, plan)| assert_same_files(name, plan)).collect();
        // otherwise the loop has compared nothing, or no start script
        let has_script = |(_, plan): &(String, Plan)| {
            let tree = tree_of_plan(plan);
            tree.get("/etc/init.d/pagewise").is_some_and(|it| it.starts_with("755 "))
        };
        assert!(plans().iter().filter(|it| has_script(it)).count() > 3);
        assert!(counts.iter().filter(|&&count| count > 0).count() > slugs().len(), "{counts:?}");
    }

    /// On a machine without systemd no rendered file uses systemd, and settings that the start
    /// script sets are not reported as lost.
    #[test]
    fn a_start_script_is_started_and_keeps_the_settings() {
        let mut scripts = 0;
        for (name, plan) in plans() {
            if !tree_of_plan(&plan).contains_key("/etc/init.d/pagewise") {
                continue;
            }
            let rendered = render(&plan, Format::Shell).unwrap();
            let script = String::from_utf8(rendered.bytes).unwrap();
            assert!(script.contains("run /etc/init.d/pagewise start"), "{name}: {script}");
            assert!(!script.contains("run systemctl"), "{name}: {script}");
            assert!(!script.contains("until the next boot"), "{name}: {script}");
            assert!(!rendered.left_out.join(" ").contains("zram"), "{name}");
            scripts += 1;
        }
        assert!(scripts > 3);
    }

    /// Each setting in a file of the plan is either in the rendered settings or reported as left
    /// out.
    #[test]
    fn formats_of_settings_have_all_settings_or_say_so() {
        for (name, plan) in plans() {
            for format in [Format::Nix, Format::Talos, Format::Bottlerocket] {
                let (text, left_out) = match render(&plan, format) {
                    Ok(it) => (String::from_utf8(it.bytes).unwrap(), it.left_out.join("\n")),
                    Err(left_out) => (String::new(), left_out.join("\n")),
                };
                if format == Format::Talos {
                    load(&text);
                } else if format == Format::Bottlerocket {
                    text.parse::<toml::Table>().unwrap_or_else(|error| panic!("{error}: {text}"));
                }
                let files = plan.steps.iter().filter_map(|step| match &step.change {
                    Change::WriteFile { target, to, .. } if target.starts_with("/etc/sysctl.d") => {
                        Some(to)
                    }
                    _ => None,
                });
                for line in files
                    .flat_map(|to| to.lines())
                    .filter(|line| line.contains(" = ") && !line.starts_with('#'))
                {
                    let (key, value) = line.split_once(" = ").unwrap();
                    let is_set = text.lines().any(|it| it.contains(key) && it.contains(value));
                    assert!(is_set || left_out.contains(key), "{name} {format:?} {line}: {text}");
                }
                let has_zram =
                    plan.steps.iter().any(|it| matches!(it.change, Change::AddZramSwap { .. }));
                assert!(
                    !has_zram || text.contains("zramSwap") || left_out.contains("zram"),
                    "{name} {format:?}"
                );
            }
        }
    }

    fn plan_with(contents: &str) -> Plan {
        let mut plan = plan_for(SHORT);
        for step in &mut plan.steps {
            if let Change::WriteFile { to, .. } = &mut step.change {
                *to = format!("[Install]\nWantedBy=swap.target\n{contents}");
            }
        }
        plan
    }

    fn plan_for(slug: &str) -> Plan {
        let scene = Scene::load(slug);
        make_plan(&Request {
            interval: &scene.replay(),
            installation: &installation(),
            measured: &Measured::default(),
            goal: Goal::Balanced,
            only: &[],
            wants: &[],
            anyway: false,
        })
    }

    #[test]
    fn the_script_stops_before_a_foreign_line_and_writes_nothing() {
        let plan = plan_for(SHORT);
        let script = rendered_text(&plan, Format::Shell).unwrap();
        for path in tree_of_plan(&plan).keys() {
            let folder = pagewise_testkit::empty_folder();
            let file = folder.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "vm.max_map_count = 1\n").unwrap();
            let (is_done, error, tree) = run_script(&script, folder.path());
            assert!(!is_done && error.contains(path.as_str()), "{error}");
            assert_eq!(tree.len(), 1);
            assert!(tree[path].ends_with(" vm.max_map_count = 1\n"), "{tree:?}");
        }
    }

    #[test]
    fn a_format_that_can_express_nothing_says_why() {
        let plan = plan_for(SHORT);
        let mut only_swap = plan;
        only_swap.steps.retain(|step| matches!(step.change, Change::AddZramSwap { .. }));
        assert_eq!(only_swap.steps.len(), 1);
        let reasons = render(&only_swap, Format::Bottlerocket).unwrap_err();
        assert!(reasons.iter().any(|it| it.contains("zram")), "{reasons:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// Whatever a file contains, the parser of each format reads the same contents back.
        #[test]
        fn contents_survive_quoting(contents in r#"([ -~]|[\n\t'"\\{}%$#:|>-]|[^\x00]){0,60}"#) {
            assert_same_files("any contents", &plan_with(&contents));
        }
    }
}
