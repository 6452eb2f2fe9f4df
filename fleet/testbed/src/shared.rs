// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One control plane for all tests of a test program.

use std::sync::OnceLock;

use kube::Client;

use crate::ControlPlane;

/// A client of the control plane that all tests of this process share, which is started at the first
/// call. It ends with the process.
///
/// # Panics
/// If the control plane does not start.
pub async fn shared_client() -> Client {
    static PLANE: OnceLock<ControlPlane> = OnceLock::new();
    // In a thread of its own, because this may wait for minutes.
    let config = tokio::task::spawn_blocking(|| {
        let start = || match ControlPlane::start() {
            Ok(plane) => plane,
            Err(error) => panic!("{error:#}"),
        };
        PLANE.get_or_init(start).config()
    });
    match config.await.map(|config| config.map(Client::try_from)) {
        Ok(Ok(Ok(client))) => client,
        other => panic!("no client: {:?}", other.map(|it| it.map(|it| it.map(|_| ())))),
    }
}
