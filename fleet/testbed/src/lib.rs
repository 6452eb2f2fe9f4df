// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A real control plane for tests: etcd, kube-apiserver and, if wanted, kube-controller-manager, on
//! free ports of the loopback interface.
//!
//! There is no kubelet and no scheduler: tests create Node objects themselves. The programs come from
//! `fleet/control-plane.sh`, which builds them once; [`ControlPlane::start`] runs that script. All files
//! are in a folder on tmpfs. The programs end and the folder goes when the [`ControlPlane`] is dropped
//! and when the process of the test ends, however it ends (`keep.sh`).

mod shared;

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Config};

pub use shared::shared_client;

/// The user of tests: a member of `system:masters`, who may do everything.
const ADMIN: &str = "admin";
/// Longest time until the API answers. Only a start that hangs takes as long.
const STARTS_WITHIN: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(100);

/// A running control plane.
#[derive(Debug)]
pub struct ControlPlane {
    // Fields are dropped in this order: the API before its store, the folder last.
    managers: Option<Kept>,
    api: Option<Kept>,
    etcd: Option<Kept>,
    _folder: Kept,
    programs: PathBuf,
    path: PathBuf,
    etcd_port: u16,
    etcd_peer_port: u16,
    api_port: u16,
    authority: Vec<u8>,
}

/// A program, or a folder, that exists until this is dropped or this process ends.
#[derive(Debug)]
struct Kept(Child);

impl Kept {
    fn start(arguments: &[&str]) -> Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("keep.sh");
        let mut command = Command::new(script);
        // Ctrl-C and `timeout` end whole process groups: the shell must survive to clean up.
        command.args(arguments).stdin(Stdio::piped()).process_group(0);
        Ok(Self(command.spawn().context("keep.sh")?))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // closes its standard input
        let _ = self.0.stdin.take();
        let _ = self.0.wait();
    }
}

impl ControlPlane {
    /// Starts etcd and kube-apiserver, and waits until the API is ready.
    ///
    /// # Errors
    /// If the programs could not be built, or end before the API is ready; the error has the end of
    /// their logs.
    pub fn start() -> Result<Self> {
        let programs = build_programs()?;
        let path = make_folder()?;
        let folder = Kept::start(&["folder", text(&path)?])?;
        let authority = write_certificates(&path)?;
        let mut plane = Self {
            managers: None,
            api: None,
            etcd: None,
            _folder: folder,
            programs,
            etcd_port: free_port()?,
            etcd_peer_port: free_port()?,
            api_port: free_port()?,
            path,
            authority,
        };
        plane.start_etcd()?;
        plane.start_api()?;
        Ok(plane)
    }

    /// A client of the user who may do everything.
    ///
    /// # Errors
    /// If the client cannot be made.
    pub fn client(&self) -> Result<Client> {
        Ok(Client::try_from(self.config()?)?)
    }

    /// How to reach the API.
    ///
    /// # Errors
    /// If the address cannot be written as a URL.
    pub fn config(&self) -> Result<Config> {
        let mut config = Config::new(self.url().parse()?);
        config.root_cert = Some(vec![self.authority.clone()]);
        config.auth_info.token = Some(ADMIN.to_owned().into());
        // Tests stop the API on purpose, and want to see the error.
        config.default_retry = false;
        Ok(config)
    }

    /// The path of a file that `kubectl --kubeconfig` reads.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        let file = self.path.join("kubeconfig");
        let authority = self.path.join("ca.pem");
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": self.url(), "certificate-authority": text(&authority)?,
            }}],
            "users": [{"name": "test", "user": {"token": ADMIN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        fs::write(&file, config.to_string())?;
        Ok(file)
    }

    fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.api_port)
    }

    /// Stops kube-apiserver; etcd keeps all objects.
    pub fn stop_api(&mut self) {
        self.api = None;
    }

    /// Starts kube-apiserver on the same port, and waits until it is ready.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_api(&mut self) -> Result<()> {
        let path = |name: &str| text(&self.path.join(name)).map(str::to_owned);
        let arguments = [
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port),
            format!("--secure-port={}", self.api_port),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--tls-cert-file={}", path("api.pem")?),
            format!("--tls-private-key-file={}", path("api.key")?),
            format!("--token-auth-file={}", path("tokens.csv")?),
            "--authorization-mode=RBAC".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--service-account-issuer=https://test".to_owned(),
            format!("--service-account-signing-key-file={}", path("accounts.key")?),
            format!("--service-account-key-file={}", path("accounts.pub")?),
            // No controller makes the accounts that pods would need.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            "--allow-privileged=true".to_owned(),
        ];
        self.api = Some(self.keep("kube-apiserver", &arguments)?);
        self.wait_until_ready()
    }

    /// Stops etcd and starts it again with the same objects.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn restart_etcd(&mut self) -> Result<()> {
        self.etcd = None;
        self.start_etcd()?;
        self.wait_until_ready()
    }

    fn start_etcd(&mut self) -> Result<()> {
        let client = format!("http://127.0.0.1:{}", self.etcd_port);
        let peer = format!("http://127.0.0.1:{}", self.etcd_peer_port);
        let arguments = [
            format!("--data-dir={}", text(&self.path.join("etcd"))?),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        self.etcd = Some(self.keep("etcd", &arguments)?);
        Ok(())
    }

    /// Starts kube-controller-manager, which among others removes objects of owners that are gone.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start_controller_manager(&mut self) -> Result<()> {
        let kubeconfig = self.kubeconfig()?;
        let arguments = [
            format!("--kubeconfig={}", text(&kubeconfig)?),
            format!("--secure-port={}", free_port()?),
            "--bind-address=127.0.0.1".to_owned(),
            "--leader-elect=false".to_owned(),
            "--controllers=garbage-collector-controller,namespace-controller".to_owned(),
        ];
        self.managers = Some(self.keep("kube-controller-manager", &arguments)?);
        Ok(())
    }

    fn keep(&self, name: &str, arguments: &[String]) -> Result<Kept> {
        let log = self.path.join(format!("{name}.log"));
        let program = self.programs.join(name);
        let mut all = vec!["program", text(&log)?, text(&program)?];
        all.extend(arguments.iter().map(String::as_str));
        Kept::start(&all)
    }

    /// Asks for `/readyz` until it says yes.
    fn wait_until_ready(&self) -> Result<()> {
        let started = Instant::now();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // A runtime may not be driven inside another one, so tests that have one call this in a thread.
        let config = self.config()?;
        let is_ready = move || {
            runtime.block_on(async {
                let client = Client::try_from(config.clone()).ok()?;
                let request = http::Request::get("/readyz").body(Vec::new()).ok()?;
                client.request_text(request).await.ok()
            })
        };
        let wait = || {
            let mut most = 0;
            while started.elapsed() < STARTS_WITHIN {
                if is_ready().is_some() {
                    return true;
                }
                let running = self.pids().map_or(0, |all| all.len());
                if running < most {
                    return false; // one has ended
                }
                most = running;
                std::thread::sleep(PAUSE);
            }
            false
        };
        let ready = std::thread::scope(|scope| scope.spawn(wait).join().unwrap_or(false));
        ensure!(ready, "the API did not become ready: {}", self.logs());
        Ok(())
    }

    /// The last lines of the programs' logs.
    #[must_use]
    pub fn logs(&self) -> String {
        let end = |name: &str| {
            let log = fs::read_to_string(self.path.join(format!("{name}.log"))).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            format!("{name}:\n{}\n", lines[lines.len().saturating_sub(15)..].join("\n"))
        };
        ["etcd", "kube-apiserver"].map(end).concat()
    }

    /// Process ids of the programs that run now.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn pids(&self) -> Result<Vec<u32>> {
        let shells = [&self.managers, &self.api, &self.etcd].into_iter().flatten();
        let mut all = Vec::new();
        for shell in shells {
            let pid = shell.0.id();
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
            let pids = children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok());
            all.extend(pids.filter(|pid| is_running(*pid)));
        }
        Ok(all)
    }

    /// The folder with the files of the programs.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Whether a process has not ended yet. One that ended is a zombie until its shell waits for it.
fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the path of a file is not UTF-8")
}

/// Builds the programs unless the cache has them, and returns their folder.
fn build_programs() -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../control-plane.sh");
    let output = Command::new(script).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "control-plane.sh failed");
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

/// Makes a folder on tmpfs, which only this user can read: it has keys.
fn make_folder() -> Result<PathBuf> {
    let folder = tempfile::Builder::new().prefix("pagewise-fleet-").tempdir_in("/dev/shm")?;
    Ok(folder.keep())
}

/// A port that nobody listens on now.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Writes a certificate of the API with its key, the key of service accounts, and the tokens of users.
/// Returns the certificate of the authority.
fn write_certificates(folder: &Path) -> Result<Vec<u8>> {
    let authority_key = rcgen::KeyPair::generate()?;
    let mut parameters = rcgen::CertificateParams::new(Vec::new())?;
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = rcgen::CertifiedIssuer::self_signed(parameters, authority_key)?;
    let key = rcgen::KeyPair::generate()?;
    let names = ["127.0.0.1", "localhost", "kubernetes"].map(str::to_owned);
    let certificate = rcgen::CertificateParams::new(names)?.signed_by(&key, &authority)?;
    fs::write(folder.join("ca.pem"), authority.pem())?;
    fs::write(folder.join("api.pem"), certificate.pem())?;
    fs::write(folder.join("api.key"), key.serialize_pem())?;
    let accounts = rcgen::KeyPair::generate()?;
    fs::write(folder.join("accounts.key"), accounts.serialize_pem())?;
    fs::write(folder.join("accounts.pub"), accounts.public_key_pem())?;
    fs::write(folder.join("tokens.csv"), format!("{ADMIN},{ADMIN},1,\"system:masters\"\n"))?;
    Ok(authority.der().to_vec())
}

/// Creates a definition of objects, and waits until the API serves it.
///
/// # Errors
/// If the API refuses it, or does not serve it within a minute.
pub async fn install(client: &Client, definition: &CustomResourceDefinition) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = definition.metadata.name.clone().context("a definition has a name")?;
    let parameters = PatchParams::apply("test").force();
    definitions.patch(&name, &parameters, &Patch::Apply(definition)).await?;
    for _ in 0..600 {
        let found = definitions.get(&name).await?;
        let conditions = found.status.and_then(|status| status.conditions).unwrap_or_default();
        let is_true =
            |kind: &str| conditions.iter().any(|it| it.type_ == kind && it.status == "True");
        if is_true("Established") && is_true("NamesAccepted") {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    bail!("{name} is not served")
}

/// Creates Node objects, which no kubelet stands behind.
///
/// # Errors
/// If the API refuses one.
pub async fn make_nodes(client: &Client, names: impl Iterator<Item = String>) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    for name in names {
        let node: Node = serde_json::from_value(serde_json::json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        }))?;
        nodes.create(&PostParams::default(), &node).await?;
    }
    Ok(())
}
