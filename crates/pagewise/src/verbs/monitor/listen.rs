// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets to serve metrics on: those that systemd passed to this process, or one that is opened
//! here.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::net::UnixListener;
use std::path::Path;

use anyhow::Context;
use listenfd::ListenFd;
use pagewise_model::{Name, Refusal};

use super::http::Listener;

/// The sockets that were passed to this process, or else a new one for this address.
pub(super) fn open(address: &str) -> anyhow::Result<Vec<Listener>> {
    let handed = take_passed_sockets()?;
    if !handed.is_empty() {
        return Ok(handed);
    }
    if let Some(path) = address.strip_prefix("unix:") {
        return Ok(vec![open_unix_socket(Path::new(path))?]);
    }
    let refused = || {
        let what =
            format!("--listen: expected HOST:PORT or unix:PATH, found {}", Name::from(address));
        Refusal::with_advice(
            what,
            "--listen 127.0.0.1:9837, or --listen unix:/run/pagewise/metrics.sock",
        )
    };
    let found: Vec<SocketAddr> = address.to_socket_addrs().map_err(|_| refused())?.collect();
    let listener = TcpListener::bind(&found[..]).map_err(|error| {
        let what = format!("--listen {}: {error}", Name::from(address));
        Refusal::with_advice(what, "name another port, or --no-listen")
    })?;
    Ok(vec![Listener::Tcp(listener)])
}

/// The sockets that systemd, or another parent, opened and passed to this process.
fn take_passed_sockets() -> anyhow::Result<Vec<Listener>> {
    let mut handed = ListenFd::from_env();
    let mut all = Vec::new();
    for at in 0..handed.len() {
        if let Ok(Some(tcp)) = handed.take_tcp_listener(at) {
            all.push(Listener::Tcp(tcp));
        } else if let Ok(Some(unix)) = handed.take_unix_listener(at) {
            all.push(Listener::Unix(unix));
        } else {
            anyhow::bail!("socket {at} that was handed over is not a listening stream socket");
        }
    }
    Ok(all)
}

/// Opens a socket in the file system. An old socket on which nobody listens is replaced; any other
/// file with that name is left alone.
fn open_unix_socket(path: &Path) -> anyhow::Result<Listener> {
    use std::os::unix::fs::FileTypeExt;
    let shown = || format!("--listen unix:{}", path.display());
    let is_socket = path.symlink_metadata().is_ok_and(|it| it.file_type().is_socket());
    if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
        std::fs::remove_file(path).with_context(shown)?;
    }
    Ok(Listener::Unix(UnixListener::bind(path).with_context(shown)?))
}
