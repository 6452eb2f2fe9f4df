// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Downloads as root use apt's own user, so that root does no more than apt does as root.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use crate::program::{empty_folder, finish, pagewise};

/// The user ID at the other end of a connection on this machine, from /proc/net/tcp.
fn user_of(connection: &TcpStream) -> u32 {
    let port = format!(":{:04X}", connection.peer_addr().unwrap().port());
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line = lines.find(|words| words.get(1).is_some_and(|local| local.ends_with(&port)));
    line.unwrap_or_else(|| panic!("no {port}: {table}"))[7].parse().unwrap()
}

/// A mirror without any packages, which reports the user of each request.
fn mirror() -> (u16, mpsc::Receiver<u32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, users) = mpsc::channel();
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let _ = tell.send(user_of(&connection));
            answer(connection);
        }
    });
    (port, users)
}

fn answer(mut connection: TcpStream) {
    let _ = connection.set_read_timeout(Some(Duration::from_secs(5)));
    let mut request = [0; 4096];
    let _ = connection.read(&mut request);
    let _ = connection
        .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

/// `lab cache fetch` with this script in the place of apt-get.
fn fetch_by(tools: &Path, script: &str, cache: &Path) -> std::process::Command {
    let apt = tools.join("apt-get");
    fs::write(&apt, script).unwrap();
    fs::set_permissions(&apt, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let mut command = pagewise(&["lab", "cache", "fetch", "trixie"]);
    // apt must not run as the user who called sudo
    command.env("PAGEWISE_CACHE", cache).env("PATH", path).env("USER", "root");
    for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env_remove(name);
    }
    command.env("no_proxy", "127.0.0.1");
    command
}

/// What `sudo -E` keeps of another user makes no program of `lab` start or read anything: apt gets
/// none of these variables, and a hook in the configuration that one of them names does not run.
#[test]
fn variables_of_another_user_do_not_reach_apt() {
    const VARIABLES: [&str; 8] = [
        "APT_CONFIG",
        "TAR_OPTIONS",
        "MKE2FS_CONFIG",
        "TMPDIR",
        "DPKG_ROOT",
        "BASH_ENV",
        "ENV",
        "GZIP",
    ];
    let folder = empty_folder();
    let [mark, config, tools, seen, cache] =
        ["mark", "config", "tools", "seen", "cache"].map(|name| folder.path().join(name));
    let hook = format!("APT::Update::Pre-Invoke {{ \"touch {}\"; }};\n", mark.display());
    fs::write(&config, hook).unwrap();
    // the hook itself works
    fs::create_dir_all(folder.path().join("lists/partial")).unwrap();
    let mut apt = std::process::Command::new("apt-get");
    apt.args([
        "update",
        "-o",
        "Dir::Etc::SourceList=/dev/null",
        "-o",
        "Dir::Etc::SourceParts=/dev/null",
    ]);
    apt.args(["-o", &format!("Dir::State::Lists={}", folder.path().join("lists").display())]);
    let _ = apt.env("APT_CONFIG", &config).output().unwrap();
    assert!(mark.exists(), "apt ran no hook");
    fs::remove_file(&mark).unwrap();
    fs::create_dir(&tools).unwrap();
    let (port, _users) = mirror();
    let script = format!(
        "#!/bin/sh\nenv >> {seen}\ncase \"$*\" in\n*indextargets*) \
         printf 'Debian\\thttp://127.0.0.1:{port}/debian/\\n';;\n*) exec /usr/bin/apt-get \"$@\";;\nesac\n",
        seen = seen.display()
    );
    let mut command = fetch_by(&tools, &script, &cache);
    let ran = finish(command.envs(VARIABLES.map(|name| (name, config.as_os_str()))));
    assert_eq!(ran.status, 1, "{}", ran.err);
    let seen = fs::read_to_string(&seen).unwrap();
    assert!(seen.contains("PATH="), "{seen}");
    for name in VARIABLES {
        assert!(!seen.lines().any(|line| line.starts_with(&format!("{name}="))), "{name}: {seen}");
    }
    assert!(!mark.exists(), "the hook of another user ran");
}

/// apt's download methods run as `_apt`, and apt prints no complaint.
#[test]
fn root_fetches_as_apts_own_user() {
    let folder = empty_folder();
    let (port, users) = mirror();
    let (tools, cache) = (folder.path().join("tools"), folder.path().join("cache"));
    let (log, calls) = (folder.path().join("log"), folder.path().join("calls"));
    let system = "/usr/bin/apt-get";
    fs::create_dir(&tools).unwrap();
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in\n*indextargets*) printf 'Debian\\thttp://127.0.0.1:{port}/debian/\\n';;\n\
         *) echo \"$2\" >> {calls}; {system} \"$@\" 2> {log}; status=$?; cat {log} >&2; exit $status;;\nesac\n",
        calls = calls.display(),
        log = log.display()
    );
    let ran = finish(&mut fetch_by(&tools, &script, &cache));
    assert!(ran.status == 1 && ran.err.contains("does not have a Release file"), "{}", ran.err);
    let message = fs::read_to_string(&log).unwrap();
    assert!(!message.contains("unsandboxed") && !message.contains("denied"), "{message}");
    let apt = fs::read_to_string("/etc/passwd").unwrap();
    let apt = apt.lines().find(|line| line.starts_with("_apt:")).expect("apt's user");
    let apt: u32 = apt.split(':').nth(2).unwrap().parse().unwrap();
    let users: Vec<u32> = users.try_iter().collect();
    assert!(!users.is_empty() && users.iter().all(|user| *user == apt), "{users:?}, not {apt}");
    // only its own folder: another run on this machine may download at the same time
    let calls = fs::read_to_string(&calls).unwrap();
    let folders: Vec<&Path> = calls.lines().filter_map(|file| Path::new(file).parent()).collect();
    let is_own = |folder: &&Path| folder.to_string_lossy().starts_with("/var/tmp/pagewise-apt-");
    assert!(!folders.is_empty() && folders.iter().all(is_own), "{folders:?}");
    assert!(!folders.iter().any(|folder| folder.exists()), "left: {folders:?}");
}
